package proxy

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"tidegate/codec"
	"tidegate/internal/kernel/flow"
	"tidegate/internal/kernel/shield"
	"tidegate/internal/netio"
)

// Kernel is what the operating system's kernel does for a Server. The zero value is nothing.
type Kernel struct {
	Shield     *shield.Shield // drops before a datagram is read; nil: nothing is dropped
	NoShield   error          // why there is none
	Plain      bool           // without a Shield, drop at least by first bytes, which takes no privilege
	Interfaces []string       // on which to drop still earlier
	Flows      *flow.Table    // forwards sessions in ModeRelay; nil: nothing is forwarded
	NoFlows    error          // why there is none
}

// forwarder is the flows, if there are any.
func (k *Kernel) forwarder() Forwarder {
	if k.Flows == nil {
		return nil
	}
	return k.Flows
}

// gate is that of a loop, or nil.
func (k *Kernel) gate(loop int) *shield.Gate {
	if k.Shield == nil {
		return nil
	}
	return k.Shield.Gate(loop)
}

// Shieldable returns nil if a listener's socket can have a filter of the kernel's, or why not.
func (l *Listener) Shieldable() error {
	switch {
	case l.Transport.Stream:
		return errors.New("it is for UDP")
	case len(l.ProxiesFrom) > 0:
		return errors.New("players come by trusted proxies, whose addresses and headers are not theirs")
	}
	return nil
}

// FirstBytes are those that datagrams of a listener's clients may begin with, and those by which only strangers do.
// Nothing is known of them where one of its protocols says nothing. In ModeRelay all may be, since what comes after a
// session's first datagram is nobody's business.
func (l *Listener) FirstBytes() shield.FirstBytes {
	var possible, openings, later codec.ByteSet
	for _, p := range l.Protocols {
		spec := p.Spec()
		if spec.FirstBytes.IsEmpty() {
			return shield.FirstBytes{}
		}
		possible, openings = possible.Or(spec.FirstBytes), openings.Or(spec.Openings)
		later = later.Or(spec.FirstBytes.AndNot(spec.Openings))
	}
	if l.Route.Mode == ModeRelay {
		possible = codec.ByteSet{}
	}
	return shield.FirstBytesOf(possible, openings.AndNot(later))
}

// guard has a socket have the filter that it shall have: none, perhaps, where a predecessor's is on it.
func (k *Kernel) guard(socket syscall.Conn, l *Listener, gate *shield.Gate) error {
	if l.Shieldable() == nil && k.Shield == nil && k.Plain {
		return guardClassic(socket, l, nil)
	}
	tellFiltered(socket, false)
	if l.Shieldable() != nil || k.Shield == nil {
		return shield.Unguard(socket)
	}
	return k.Shield.Guard(socket, l.FirstBytes(), gate)
}

// guardClassic has a socket have a filter that takes no privilege.
func guardClassic(socket syscall.Conn, l *Listener, clients *shield.ClientBitmap) error {
	filters, err := shield.GuardClassic(socket, l.FirstBytes(), clients)
	if err == nil {
		tellFiltered(socket, filters)
	}
	return err
}

// tellFiltered tells a socket whether there is a filter before it that does not count what it drops.
func tellFiltered(socket syscall.Conn, on bool) {
	if d, ok := socket.(netio.KernelDropCounter); ok {
		d.SetFiltered(on)
	}
}

// shieldLoop puts filters in front of the listening sockets of a loop, as its Relay's settings want them. It runs on
// the loop's goroutine, or before that.
func (s *Server) shieldLoop(r *Relay) error {
	for i := range r.settings.Listeners {
		l, d := &r.settings.Listeners[i], r.listeners[i]
		socket, ok := netio.ListenerOf(d.socket).(syscall.Conn)
		if !ok || l.Transport.Stream {
			continue
		}
		if err := s.options.Kernel.guard(socket, l, r.known.gate); err != nil {
			return fmt.Errorf("listener %s: %w", l.Name, err)
		}
	}
	return nil
}

// startKernel puts the filters in their places, and says in one line what the kernel does and why not more.
func (s *Server) startKernel() {
	k := &s.options.Kernel
	line := s.options.Log.Info()
	if k.Shield != nil {
		s.shieldBans(time.Now())
	}
	filter := k.FilterState()
	if err := s.shieldLoops(); err != nil {
		filter = inKernel(err)
	}
	for _, state := range s.shieldInterfaces() {
		line = line.Str("xdp_"+state.name, state.String())
	}
	line.Str("filter", filter).Str("forward", inKernel(k.NoFlows)).Msg("the kernel's help")
}

// shieldLoops is shieldLoop for all loops before they run.
func (s *Server) shieldLoops() error {
	for _, l := range s.loops {
		if err := s.shieldLoop(l.relay); err != nil {
			return err
		}
	}
	return nil
}

// reloadKernel tells the filters of the settings that hold now. Server.reloading is held.
func (s *Server) reloadKernel() {
	for _, l := range s.loops {
		var err error
		l.ask(func(r *Relay, _ time.Time) { err = s.shieldLoop(r) })
		if err != nil {
			s.options.Log.Warn().Err(err).Msg("a listener is without the kernel's filter")
		}
	}
	s.tellInterfaces(s.shieldInterfaces())
}

// FilterState says in words who drops what needs no session to be judged.
func (k *Kernel) FilterState() string {
	if k.Shield == nil && k.Plain {
		return "kernel, for first bytes and strangers in a flood; the rest in " + inKernel(k.NoShield)
	}
	return inKernel(k.NoShield)
}

// inKernel says in words who does something.
func inKernel(why error) string {
	if why == nil {
		return "kernel"
	}
	return "user space: " + strings.ReplaceAll(why.Error(), "\n", "; ")
}
