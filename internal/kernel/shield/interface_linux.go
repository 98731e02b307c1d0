package shield

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"

	"github.com/cilium/ebpf"
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
