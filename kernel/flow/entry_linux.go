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

	Interval  uint64 // ns between datagrams; 0: not limited
	Tolerance uint64 // ns that they may come early
	Due       uint64 // theoretical arrival time of the next, in ns of the monotonic clock

	Packets, Bytes, Dropped uint64
	Seen                    uint64 // ns of the monotonic clock
	Way                     uint64 // index of the totals
}

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
	if r.Packets <= 0 {
		return
	}
	interval := time.Second / time.Duration(r.Packets)
	e.Interval = uint64(max(interval, 1))
	e.Tolerance = e.Interval * uint64(max(r.Burst, 1)-1)
}

func (e *entry) count() Count { return Count{e.Packets, e.Bytes, e.Dropped} }

// Offsets of the fields that the program uses, as instructions have them.
const (
	atOut       = int16(unsafe.Offsetof(entry{}.Out))
	atInPlace   = int16(unsafe.Offsetof(entry{}.InPlace))
	atIPSum     = int16(unsafe.Offsetof(entry{}.IPSum))
	atAddrSum   = int16(unsafe.Offsetof(entry{}.AddrSum))
	atPortSum   = int16(unsafe.Offsetof(entry{}.PortSum))
	atInterval  = int16(unsafe.Offsetof(entry{}.Interval))
	atTolerance = int16(unsafe.Offsetof(entry{}.Tolerance))
	atDue       = int16(unsafe.Offsetof(entry{}.Due))
	atPackets   = int16(unsafe.Offsetof(entry{}.Packets))
	atBytes     = int16(unsafe.Offsetof(entry{}.Bytes))
	atDropped   = int16(unsafe.Offsetof(entry{}.Dropped))
	atSeen      = int16(unsafe.Offsetof(entry{}.Seen))
	atWay       = int16(unsafe.Offsetof(entry{}.Way))
)
