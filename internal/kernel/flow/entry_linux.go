package flow

import (
	"encoding/binary"
	"net/netip"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
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

// Offsets in the context, struct __sk_buff.
const (
	skbPacketType = 4   // 0: for this host
	skbProtocol   = 16  // EtherType, in network order
	skbVLAN       = 20  // whether a VLAN tag was removed
	skbInterface  = 40  // the program's interface
	skbSegments   = 164 // number of merged datagrams; 0 means one
)

// Offsets in a packet, in bytes from its start. They are fixed, since packets with options pass untouched.
const (
	network = 14
	ipv4Len = 20
	ipv6Len = 40
	udpLen  = 8

	ttlIPv4    = network + 8
	ipSumAt    = network + 10
	sourceIPv4 = network + 12
	udpIPv4    = network + ipv4Len
	hopsIPv6   = network + 7
	sourceIPv6 = network + 8
	udpIPv6    = network + ipv6Len
	udpSumAt   = 6 // from the UDP header

	etherIPv4   = 0x0800
	etherIPv6   = 0x86dd
	protocolUDP = 17
	fragment    = 0x3fff // more fragments follow, or it is not the first
)

// Flags of helper functions.
const (
	recomputeSum = 1    // BPF_F_RECOMPUTE_CSUM: the whole packet's sum, if the network card reported one
	pseudoHeader = 0x10 // BPF_F_PSEUDO_HDR
	mangledZero  = 0x20 // BPF_F_MARK_MANGLED_0: a UDP sum of zero means none, and stays zero
	everySegment = 1    // BPF_MTU_CHK_SEGS
)

// Return values of the program.
const (
	next = -1 // TCX_NEXT: continue with other programs, and then with the sockets
	drop = 2  // TCX_DROP
)

// Stack layout. The headers are copied there, since a packet's own headers may be scattered.
const (
	headers = -48 // up to 48 bytes: the IP and the UDP header
	keyAt   = -88 // 36 bytes
	wordAt  = -92 // 4 bytes: arguments of helper functions
	sizeAt  = -96 // 4 bytes: the UDP length, later the payload's length
)

// Register use.
const (
	ctx    = asm.R6
	flow   = asm.R7 // pointer to the entry
	now    = asm.R8
	weight = asm.R9 // number of datagrams in the packet
)

// newProgram builds the program for interfaces with Ethernet headers. It looks packets up in flows if the bitmap has
// their key, and adds to totals.
func newProgram(bitmap *bitmap, flows, totals *ebpf.Map) (*ebpf.Program, error) {
	code := classify()
	code = append(code, ipv4Key()...)
	code = append(code, asm.Ja.Label("find"))
	code = append(code, ipv6Key()...)
	code = append(code, bitmap.maybe()...)
	code = append(code, find(flows)...)
	code = append(code, records()...)
	code = append(code, admit()...)
	code = append(code, account(totals)...)
	code = append(code, rewriteIPv4()...)
	code = append(code, asm.Ja.Label("send"))
	code = append(code, rewriteIPv6()...)
	code = append(code, send()...)
	code = append(code, discard(totals)...)
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "tidegate_flow", Type: ebpf.SchedCLS, AttachType: ebpf.AttachTCXIngress, License: "Dual MIT/GPL",
		Instructions: code,
	})
}

// classify passes packets for other hosts, and packets in a VLAN, whose own interface gets them later.
func classify() asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(ctx, asm.R1),
		asm.LoadMem(asm.R1, ctx, skbPacketType, asm.Word),
		asm.JNE.Imm(asm.R1, 0, "next"),
		asm.LoadMem(asm.R1, ctx, skbVLAN, asm.Word),
		asm.JNE.Imm(asm.R1, 0, "next"),
		asm.LoadMem(weight, ctx, skbSegments, asm.Word),
		asm.JNE.Imm(weight, 0, "merged"),
		asm.Mov.Imm(weight, 1),
		asm.LoadMem(asm.R1, ctx, skbProtocol, asm.Word).WithSymbol("merged"),
		asm.HostTo(asm.BE, asm.R1, asm.Half),
		asm.JEq.Imm(asm.R1, etherIPv6, "IPv6"),
		asm.JNE.Imm(asm.R1, etherIPv4, "next"),
	}
}

// load copies the headers to the stack.
func load(length int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, ctx),
		asm.Mov.Imm(asm.R2, network),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, headers),
		asm.Mov.Imm(asm.R4, length),
		asm.FnSkbLoadBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "next"),
	}
}

// ipv4Key makes the key of a whole datagram that may go one hop further. All other packets pass.
func ipv4Key() asm.Instructions {
	const udp = headers + ipv4Len
	return append(load(ipv4Len+udpLen),
		asm.LoadMem(asm.R1, asm.RFP, headers, asm.Byte),
		asm.JNE.Imm(asm.R1, 0x45, "next"), // version 4, 5 words of header
		asm.LoadMem(asm.R1, asm.RFP, headers+6, asm.Half),
		asm.HostTo(asm.BE, asm.R1, asm.Half),
		asm.And.Imm(asm.R1, fragment),
		asm.JNE.Imm(asm.R1, 0, "next"),
		asm.LoadMem(asm.R1, asm.RFP, headers+9, asm.Byte),
		asm.JNE.Imm(asm.R1, protocolUDP, "next"),
		asm.LoadMem(asm.R1, asm.RFP, headers+8, asm.Byte),
		asm.JLE.Imm(asm.R1, 1, "next"),
		asm.Sub.Imm(asm.R1, 1),
		asm.StoreMem(asm.RFP, headers+8, asm.R1, asm.Byte),
		asm.LoadMem(asm.R1, asm.RFP, headers+2, asm.Half),
		asm.HostTo(asm.BE, asm.R1, asm.Half),
		asm.Sub.Imm(asm.R1, ipv4Len),
		asm.LoadMem(asm.R2, asm.RFP, udp+4, asm.Half),
		asm.HostTo(asm.BE, asm.R2, asm.Half),
		asm.JNE.Reg(asm.R1, asm.R2, "next"),
		asm.JLE.Imm(asm.R2, udpLen, "next"), // empty

		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, keyAt, asm.R1, asm.DWord),
		asm.StoreMem(asm.RFP, keyAt+16, asm.R1, asm.DWord),
		asm.StoreImm(asm.RFP, keyAt+8, 0, asm.Half),
		asm.StoreImm(asm.RFP, keyAt+10, 0xffff, asm.Half),
		asm.StoreImm(asm.RFP, keyAt+24, 0, asm.Half),
		asm.StoreImm(asm.RFP, keyAt+26, 0xffff, asm.Half),
		asm.LoadMem(asm.R1, asm.RFP, headers+12, asm.Word),
		asm.StoreMem(asm.RFP, keyAt+12, asm.R1, asm.Word),
		asm.LoadMem(asm.R1, asm.RFP, headers+16, asm.Word),
		asm.StoreMem(asm.RFP, keyAt+28, asm.R1, asm.Word),
		asm.LoadMem(asm.R1, asm.RFP, udp, asm.Word),
		asm.StoreMem(asm.RFP, keyAt+32, asm.R1, asm.Word),
		asm.StoreMem(asm.RFP, sizeAt, asm.R2, asm.Word),
	)
}

// ipv6Key is ipv4Key for IPv6. A fragment has an extra header, so that the check for UDP excludes it.
func ipv6Key() asm.Instructions {
	const udp = headers + ipv6Len
	code := load(ipv6Len + udpLen)
	code[0] = code[0].WithSymbol("IPv6")
	code = append(code,
		asm.LoadMem(asm.R1, asm.RFP, headers+6, asm.Byte),
		asm.JNE.Imm(asm.R1, protocolUDP, "next"),
		asm.LoadMem(asm.R1, asm.RFP, headers+7, asm.Byte),
		asm.JLE.Imm(asm.R1, 1, "next"),
		asm.Sub.Imm(asm.R1, 1),
		asm.StoreMem(asm.RFP, headers+7, asm.R1, asm.Byte),
		asm.LoadMem(asm.R1, asm.RFP, headers+4, asm.Half),
		asm.LoadMem(asm.R2, asm.RFP, udp+4, asm.Half),
		asm.JNE.Reg(asm.R1, asm.R2, "next"),
		asm.HostTo(asm.BE, asm.R2, asm.Half),
		asm.JLE.Imm(asm.R2, udpLen, "next"), // empty
	)
	for i := int16(0); i < 32; i += 8 {
		code = append(code,
			asm.LoadMem(asm.R1, asm.RFP, headers+8+i, asm.DWord),
			asm.StoreMem(asm.RFP, keyAt+i, asm.R1, asm.DWord),
		)
	}
	return append(code,
		asm.LoadMem(asm.R1, asm.RFP, udp, asm.Word),
		asm.StoreMem(asm.RFP, keyAt+32, asm.R1, asm.Word),
		asm.StoreMem(asm.RFP, sizeAt, asm.R2, asm.Word),
	)
}
