package shield

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"tidegate/internal/kernel"
)

// guarded is an interface with our program.
type guarded struct {
	link  link.Link
	mode  Mode
	meter meter
}

// GuardInterface makes XDP check the traffic to listeners on a network interface. It replaces the listeners of an
// earlier call. All other traffic passes untouched: other ports, fragments, VLANs, headers with options. The program
// ends with the process. The error is a kernel.Unavailable.
func (s *Shield) GuardInterface(name string, listeners []Listener) (Mode, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mode, err := s.guardInterface(name, listeners)
	if err != nil {
		return 0, &kernel.Unavailable{What: "XDP on " + name, Err: err}
	}
	return mode, nil
}

func (s *Shield) guardInterface(name string, listeners []Listener) (Mode, error) {
	known := s.interfaces[name]
	g := known
	if g == nil {
		m, err := newMeter(&s.options)
		if err != nil {
			return 0, err
		}
		g = &guarded{meter: m}
	}
	program, err := s.interfaceProgram(g, listeners)
	if err == nil {
		defer func() { _ = program.Close() }() // the link holds it
		err = g.attach(name, program)
	}
	if err != nil {
		if known == nil {
			_ = g.meter.close()
		}
		return 0, err
	}
	s.interfaces[name] = g
	return g.mode, nil
}

// LeaveInterface removes the program from an interface, if it is there.
func (s *Shield) LeaveInterface(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.interfaces[name]
	if g == nil {
		return nil
	}
	delete(s.interfaces, name)
	var last Tally
	if err := g.meter.addTo(&last); err == nil {
		for reason, n := range last {
			s.retired[reason] += n
		}
	}
	return g.close()
}

// attach replaces the interface's program, or attaches it: in the driver if the driver supports XDP.
func (g *guarded) attach(name string, program *ebpf.Program) error {
	if g.link != nil {
		return g.link.Update(program)
	}
	device, err := net.InterfaceByName(name)
	if err != nil {
		return err
	}
	o := link.XDPOptions{Program: program, Interface: device.Index, Flags: link.XDPDriverMode}
	g.mode = Native
	if g.link, err = link.AttachXDP(o); err != nil {
		o.Flags, g.mode = link.XDPGenericMode, Generic
		g.link, err = link.AttachXDP(o)
	}
	return err
}

func (g *guarded) close() error { return errors.Join(g.link.Close(), g.meter.close()) }

// target is a listener's address for the program: IPv4-mapped, then the port in network order and two zeros.
type target [20]byte

func (s *Shield) interfaceProgram(g *guarded, listeners []Listener) (*ebpf.Program, error) {
	spec := ebpf.MapSpec{
		Name: "tidegate_target", Type: ebpf.Hash, KeySize: uint32(len(target{})),
		ValueSize: uint32(binary.Size(table{})), MaxEntries: uint32(max(len(listeners), 1)),
	}
	for i := range listeners {
		l := &listeners[i]
		var t target
		addr := l.Addr.Addr().As16()
		binary.BigEndian.PutUint16(t[copy(t[:], addr[:]):], l.Addr.Port())
		spec.Contents = append(spec.Contents, ebpf.MapKV{Key: t, Value: l.First.table()})
	}
	targets, err := ebpf.NewMap(&spec)
	if err != nil {
		return nil, fmt.Errorf("map of listeners: %w", err)
	}
	defer func() { _ = targets.Close() }() // the program holds it
	c := newChecks(&s.options, verdicts{pass: xdpPass, drop: xdpDrop})
	c.bans, c.meter, c.gate = s.bans, g.meter, s.gates.interfaceCode()
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "tidegate_xdp", Type: ebpf.XDP, License: license,
		Instructions: append(interfaceCode(targets.FD()), c.code()...),
	})
}

// Return values of an XDP program.
const (
	xdpDrop = 1
	xdpPass = 2
)

// Offsets in a packet, in bytes from its start. They are fixed, since headers with options pass unread.
const (
	etherLen = 14
	typeAt   = 12
	ipv4     = etherLen
	udpIPv4  = ipv4 + 20
	ipv6     = etherLen
	udpIPv6  = ipv6 + 40

	protocolUDP = 17
	moreOrAny   = 0x3fff // more fragments follow, or it is not the first
)

// Register use until the checks begin.
const (
	packet = asm.R2
	end    = asm.R3
)

// interfaceCode fills the stack and the registers. Packets for other destinations than a listener pass.
func interfaceCode(targets int) asm.Instructions {
	code := asm.Instructions{
		asm.LoadMem(packet, asm.R1, 0, asm.Word),
		asm.LoadMem(end, asm.R1, 4, asm.Word),
		asm.StoreImm(asm.RFP, targetAt+18, 0, asm.Half),
	}
	code = append(code, need(udpIPv4+udpHeader)...)
	code = append(code,
		asm.LoadMem(asm.R1, packet, typeAt, asm.Half),
		asm.HostTo(asm.BE, asm.R1, asm.Half),
		asm.JEq.Imm(asm.R1, etherIPv6, "ipv6"),
		asm.JNE.Imm(asm.R1, etherIPv4, "pass"),
	)
	code = append(code, ipv4Code()...)
	code = append(code, udpCode(udpIPv4)...)
	code = append(code, asm.Ja.Label("listener"), asm.Mov.Imm(asm.R1, 0).WithSymbol("ipv6"))
	code = append(code, ipv6Code()...)
	code = append(code, udpCode(udpIPv6)...)
	return append(code,
		asm.LoadMapPtr(asm.R1, targets).WithSymbol("listener"),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, targetAt),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "pass"),
		asm.Mov.Reg(tables, asm.R0),
		asm.Mov.Imm(weight, 1),
	)
}

// need passes packets shorter than n bytes.
func need(n int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R4, packet),
		asm.Add.Imm(asm.R4, n),
		asm.JGT.Reg(asm.R4, end, "pass"),
	}
}

func ipv4Code() asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, packet, ipv4, asm.Byte),
		asm.JNE.Imm(asm.R1, 0x45, "pass"), // version 4, 5 words of header
		asm.LoadMem(asm.R1, packet, ipv4+6, asm.Half),
		asm.HostTo(asm.BE, asm.R1, asm.Half),
		asm.And.Imm(asm.R1, moreOrAny),
		asm.JNE.Imm(asm.R1, 0, "pass"),
		asm.LoadMem(asm.R1, packet, ipv4+9, asm.Byte),
		asm.JNE.Imm(asm.R1, protocolUDP, "pass"),

		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, addrAt, asm.R1, asm.DWord),
		asm.StoreMem(asm.RFP, targetAt, asm.R1, asm.DWord),
		asm.StoreImm(asm.RFP, addrAt+8, 0, asm.Half),
		asm.StoreImm(asm.RFP, addrAt+10, 0xffff, asm.Half),
		asm.StoreImm(asm.RFP, targetAt+8, 0, asm.Half),
		asm.StoreImm(asm.RFP, targetAt+10, 0xffff, asm.Half),
		asm.LoadMem(asm.R1, packet, ipv4+12, asm.Word),
		asm.StoreMem(asm.RFP, addrAt+12, asm.R1, asm.Word),
		asm.LoadMem(asm.R1, packet, ipv4+16, asm.Word),
		asm.StoreMem(asm.RFP, targetAt+12, asm.R1, asm.Word),
	}
}

func ipv6Code() asm.Instructions {
	code := append(need(udpIPv6+udpHeader),
		asm.LoadMem(asm.R1, packet, ipv6+6, asm.Byte),
		asm.JNE.Imm(asm.R1, protocolUDP, "pass"),
	)
	for i := int16(0); i < 16; i += 4 { // an IPv6 header is aligned to 4 bytes only
		code = append(code,
			asm.LoadMem(asm.R1, packet, ipv6+8+i, asm.Word),
			asm.StoreMem(asm.RFP, addrAt+i, asm.R1, asm.Word),
			asm.LoadMem(asm.R1, packet, ipv6+24+i, asm.Word),
			asm.StoreMem(asm.RFP, targetAt+i, asm.R1, asm.Word),
		)
	}
	return code
}

// udpCode reads the port and the first byte. The UDP length decides whether a datagram is empty, since Ethernet pads
// it.
func udpCode(udp int16) asm.Instructions {
	done := fmt.Sprintf("read %d", udp)
	code := asm.Instructions{
		asm.LoadMem(asm.R1, packet, udp+2, asm.Half),
		asm.StoreMem(asm.RFP, targetAt+16, asm.R1, asm.Half),
		asm.LoadMem(asm.R1, packet, udp, asm.Word),
		asm.StoreMem(asm.RFP, portsAt, asm.R1, asm.Word),
		asm.Mov.Imm(first, noByte),
		asm.LoadMem(asm.R1, packet, udp+4, asm.Half),
		asm.HostTo(asm.BE, asm.R1, asm.Half),
		asm.JLE.Imm(asm.R1, udpHeader, done),
	}
	code = append(code, need(int32(udp)+udpHeader+1)...)
	return append(code,
		asm.LoadMem(first, packet, udp+udpHeader, asm.Byte),
		asm.Mov.Imm(asm.R1, 0).WithSymbol(done),
	)
}

// noPrealloc is BPF_F_NO_PREALLOC: allocate memory for existing entries only. A trie requires it.
const noPrealloc = 1

// prefixKey is a prefix as the trie stores it: length in bits, in the machine's order, then an IPv4-mapped address.
type prefixKey [20]byte

// bans has one trie per family, so that an IPv6 prefix that covers the IPv4-mapped addresses bans no IPv4 client.
type bans struct{ ipv4, ipv6 *ebpf.Map }

// newBans creates tries with room for the given number of prefixes each. They allocate memory per entry.
func newBans(most int) (b bans, err error) {
	for _, trie := range []**ebpf.Map{&b.ipv4, &b.ipv6} {
		*trie, err = ebpf.NewMap(&ebpf.MapSpec{
			Name: "tidegate_bans", Type: ebpf.LPMTrie, KeySize: uint32(len(prefixKey{})), ValueSize: 1,
			MaxEntries: uint32(max(most, 1)), Flags: noPrealloc,
		})
		if err != nil {
			return b, fmt.Errorf("map of bans: %w", err)
		}
	}
	return b, nil
}

func (b *bans) of(p netip.Prefix) *ebpf.Map {
	if p.Addr().Is4() {
		return b.ipv4
	}
	return b.ipv6
}

func (b *bans) close() error { return errors.Join(b.ipv4.Close(), b.ipv6.Close()) }

// SetBans replaces the banned prefixes. It changes only the difference, so that a prefix banned before and after is
// never let in. It returns the number of prefixes beyond Options.Bans, which user space must drop.
func (s *Shield) SetBans(prefixes []netip.Prefix) (left int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	want := make(map[netip.Prefix]struct{}, len(prefixes))
	for _, p := range prefixes {
		if p.Addr().Is4In6() && p.Bits() >= mappedBits {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mappedBits)
		}
		want[p.Masked()] = struct{}{}
	}
	for p := range s.banned {
		if _, stays := want[p]; stays {
			continue
		}
		if err := s.bans.of(p).Delete(keyOf(p)); err != nil {
			return 0, fmt.Errorf("lift the ban of %s: %w", p, err)
		}
		delete(s.banned, p)
	}
	for p := range want {
		if _, has := s.banned[p]; has {
			continue
		}
		if len(s.banned) >= max(s.options.Bans, 1) {
			left++
			continue
		}
		if err := s.bans.of(p).Put(keyOf(p), byte(1)); err != nil {
			return 0, fmt.Errorf("ban %s: %w", p, err)
		}
		s.banned[p] = struct{}{}
	}
	return left, nil
}

// mappedBits is the extra length of an IPv4 prefix when mapped into IPv6.
const mappedBits = 96

func keyOf(p netip.Prefix) (k prefixKey) {
	bits := p.Bits()
	if p.Addr().Is4() {
		bits += mappedBits
	}
	binary.NativeEndian.PutUint32(k[:], uint32(bits))
	addr := p.Addr().As16()
	copy(k[4:], addr[:])
	return k
}
