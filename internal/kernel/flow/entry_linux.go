package flow

import (
	"encoding/binary"
	"net/netip"
	"time"
	"unsafe"
)

// key identifies a datagram for the program: addresses IPv4-mapped, ports in network order.
type key struct {
	From, To [16]byte
	Ports    [4]byte // from, to
}

// entry is one direction of a flow, as the program reads and writes it. The offsets are below.
type entry struct {
	// Rewrite is the new content of the packet from the source address to the ports. They are adjacent in a packet
	// without options. An address has 4 or 16 bytes.
	Rewrite [36]byte
	Out     uint32 // interface for sending
	InPlace uint32 // loopback interface on which the packet stays; 0: none

	// Added to the one's complement sums, for the changes in the packet.
	IPSum   uint32 // addresses and time to live; IPv4 only
	AddrSum uint32
	PortSum uint32

	Packet, Byte bucket

	Packets, Bytes, Dropped uint64
	Seen                    uint64 // ns of the monotonic clock
	Direction               uint64 // index into the totals
	Records                 uint64 // other than 0: see Rate.Records
}

// bucket limits a rate by the generic cell rate algorithm.
type bucket struct {
	Cost      uint64 // ns per 1<<costShift counted units; 0: no limit
	Tolerance uint64 // ns by which units may come early
	Due       uint64 // theoretical arrival time of the next unit, in ns of the monotonic clock
}

// costShift makes room for fractions of a nanosecond: at 16 MiB per second, a byte costs 60 units.
const costShift = 10

// Directions.
const (
	fromClient = iota
	fromServer
	directions
)

func newKey(from, to netip.AddrPort) (k key) {
	k.From, k.To = from.Addr().As16(), to.Addr().As16()
	binary.BigEndian.PutUint16(k.Ports[:], from.Port())
	binary.BigEndian.PutUint16(k.Ports[2:], to.Port())
	return k
}

// newEntry returns an entry that rewrites packets between one pair of addresses to another pair.
func newEntry(from, to, newFrom, newTo netip.AddrPort) (e entry) {
	before := appendEndpoints(nil, from, to)
	after := appendEndpoints(nil, newFrom, newTo)
	copy(e.Rewrite[:], after)
	addresses := len(before) - 4
	e.AddrSum = difference(before[:addresses], after[:addresses])
	e.PortSum = difference(before[addresses:], after[addresses:])
	// The time to live shares 16 bits with the protocol and is decremented. The sum changes equally for every value.
	e.IPSum = e.AddrSum + difference([]byte{1, 0}, []byte{0, 0})
	return e
}

// appendEndpoints appends two addresses and their ports as in a packet.
func appendEndpoints(b []byte, from, to netip.AddrPort) []byte {
	b = append(b, from.Addr().AsSlice()...)
	b = append(b, to.Addr().AsSlice()...)
	b = binary.BigEndian.AppendUint16(b, from.Port())
	return binary.BigEndian.AppendUint16(b, to.Port())
}

// difference returns the change of a one's complement sum when some bytes are replaced by others. Like the kernel, it
// uses 16-bit words in the machine's order.
func difference(before, after []byte) (sum uint32) {
	for i := 0; i < len(before); i += 2 {
		sum += uint32(binary.NativeEndian.Uint16(after[i:]))
		sum += uint32(^binary.NativeEndian.Uint16(before[i:]))
	}
	return sum
}

// limit sets the entry's rate.
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

// Offsets of the fields that the program uses.
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
	atDirection = int16(unsafe.Offsetof(entry{}.Direction))
	atRecords   = int16(unsafe.Offsetof(entry{}.Records))
)
