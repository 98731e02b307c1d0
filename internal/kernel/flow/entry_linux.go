package flow

import (
	"encoding/binary"
	"net/netip"
	"time"
	"unsafe"
)

// key is what the program knows a datagram by: the addresses IPv4-mapped, the ports in network order.
type key struct {
	From, To [16]byte
	Ports    [4]byte // from, to
}

// entry is one way of a flow, as the program reads and writes it. The offsets are below.
type entry struct {
	// Rewrite is what stands in the packet from the source address to the ports, which lie side by side in a packet
	// without options: 4 or 16 bytes an address.
	Rewrite [36]byte
	Out     uint32 // interface to send by
	InPlace uint32 // interface on which it needs no sending, as it is the loopback's own; 0: none

	// What to add to the one's complement sums, for what changes in the packet.
	IPSum   uint32 // addresses and time to live; IPv4 only
	AddrSum uint32
	PortSum uint32

	Packet, Byte bucket

	Packets, Bytes, Dropped uint64
	Seen                    uint64 // ns of the monotonic clock
	Way                     uint64 // index of the totals
}

// bucket limits a rate: the generic cell rate algorithm.
type bucket struct {
	Cost      uint64 // ns that 1 << costShift of what is counted take; 0: not limited
	Tolerance uint64 // ns that they may come early
	Due       uint64 // theoretical arrival time of the next, in ns of the monotonic clock
}

// costShift makes room for fractions of a nanosecond: at 16 MiB a second, a byte takes 60 of them.
const costShift = 10

// The ways.
const (
	fromClient = iota
	fromServer
	ways
)

func newKey(from, to netip.AddrPort) (k key) {
	k.From, k.To = from.Addr().As16(), to.Addr().As16()
	binary.BigEndian.PutUint16(k.Ports[:], from.Port())
	binary.BigEndian.PutUint16(k.Ports[2:], to.Port())
	return k
}

// newEntry has the program make what goes from one address to another go between two others.
func newEntry(from, to, newFrom, newTo netip.AddrPort) (e entry) {
	before := appendEndpoints(nil, from, to)
	after := appendEndpoints(nil, newFrom, newTo)
	copy(e.Rewrite[:], after)
	addresses := len(before) - 4
	e.AddrSum = difference(before[:addresses], after[:addresses])
	e.PortSum = difference(before[addresses:], after[addresses:])
	// The time to live shares 16 bits with the protocol, and becomes one less: whatever it was, the sum changes the same.
	e.IPSum = e.AddrSum + difference([]byte{1, 0}, []byte{0, 0})
	return e
}

// appendEndpoints appends two addresses and their ports as they stand in a packet.
func appendEndpoints(b []byte, from, to netip.AddrPort) []byte {
	b = append(b, from.Addr().AsSlice()...)
	b = append(b, to.Addr().AsSlice()...)
	b = binary.BigEndian.AppendUint16(b, from.Port())
	return binary.BigEndian.AppendUint16(b, to.Port())
}

// difference is what to add to a one's complement sum over some bytes when they are replaced by others. As the kernel
// does, it takes 16-bit words in the machine's order.
func difference(before, after []byte) (sum uint32) {
	for i := 0; i < len(before); i += 2 {
		sum += uint32(binary.NativeEndian.Uint16(after[i:]))
		sum += uint32(^binary.NativeEndian.Uint16(before[i:]))
	}
	return sum
}

// limit holds the entry to a rate.
func (e *entry) limit(r Rate) {
	e.Packet = newBucket(r.Packets, r.PacketBurst)
	e.Byte = newBucket(r.Bytes, r.ByteBurst)
}

func newBucket(perSecond, burst int) bucket {
	if perSecond <= 0 {
		return bucket{}
	}
	cost := max(1, uint64(time.Second)<<costShift/uint64(perSecond))
	return bucket{Cost: cost, Tolerance: cost * uint64(max(burst, 1)-1) >> costShift}
}

func (e *entry) count() Count { return Count{e.Packets, e.Bytes, e.Dropped} }

// Offsets of the fields that the program uses, as instructions have them.
const (
	atOut       = int16(unsafe.Offsetof(entry{}.Out))
	atInPlace   = int16(unsafe.Offsetof(entry{}.InPlace))
	atIPSum     = int16(unsafe.Offsetof(entry{}.IPSum))
	atAddrSum   = int16(unsafe.Offsetof(entry{}.AddrSum))
	atPortSum   = int16(unsafe.Offsetof(entry{}.PortSum))
	atPacket    = int16(unsafe.Offsetof(entry{}.Packet))
	atByte      = int16(unsafe.Offsetof(entry{}.Byte))
	atCost      = int16(unsafe.Offsetof(bucket{}.Cost))      // in a bucket
	atTolerance = int16(unsafe.Offsetof(bucket{}.Tolerance)) // in a bucket
	atDue       = int16(unsafe.Offsetof(bucket{}.Due))       // in a bucket
	atPackets   = int16(unsafe.Offsetof(entry{}.Packets))
	atBytes     = int16(unsafe.Offsetof(entry{}.Bytes))
	atDropped   = int16(unsafe.Offsetof(entry{}.Dropped))
	atSeen      = int16(unsafe.Offsetof(entry{}.Seen))
	atWay       = int16(unsafe.Offsetof(entry{}.Way))
)
