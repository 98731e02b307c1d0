package proxy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"tidegate/internal/netio"
	"tidegate/proxy/relay"
)

// inherited is a listening socket that another process opened. If a service manager has it too, the Server keeps it: a
// removed listener can come back on this socket only.
type inherited struct {
	fd int
	place
	loop int // the only loop that may listen on it; -1: any
}

func (from *inherited) close() { netio.CloseCopies([]int{from.fd}) }

// place is the address and transport of a listening socket.
type place struct {
	addr   netip.AddrPort
	stream bool
}

// inherit reads the addresses of the sockets that another process gave to this one.
func inherit(descriptors []int) ([]inherited, error) {
	all := make([]inherited, 0, len(descriptors))
	for _, fd := range descriptors {
		addr, stream, err := netio.BoundAddress(fd)
		if err != nil {
			return nil, fmt.Errorf("inherited socket %d: %w", fd, err)
		}
		all = append(all, inherited{fd, place{addr, stream}, -1})
	}
	return all, nil
}

// spare closes the inherited sockets without a use. A socket that no loop reads, at the address of a listener, would
// get a share of its clients. A service manager keeps the others open.
func (s *Server) spare(settings *relay.Settings, addrs []netip.AddrPort) {
	if !s.options.Held {
		s.disown()
		return
	}
	listening := make(map[place]bool)
	for i, addr := range addrs {
		listening[place{addr, settings.Listeners[i].Transport.Stream}] = true
	}
	s.inherited = slices.DeleteFunc(s.inherited, func(from inherited) bool {
		idle := from.loop < 0 && listening[from.place]
		if idle {
			from.close()
		}
		return idle
	})
}

// warnOfInherited logs the sockets of a service manager that match no listener.
func (s *Server) warnOfInherited() {
	for _, from := range s.inherited {
		if from.loop < 0 {
			s.options.Log.Warn().Stringer("address", from.addr).Msg("inherited socket that no listener has the address of")
		}
	}
}

// disown closes the inherited sockets. Loops have their own copies.
func (s *Server) disown() {
	for _, from := range s.inherited {
		from.close()
	}
	s.inherited = nil
}

// Errors of Server.Import.
var (
	ErrLoops = errors.New("the predecessor has another number of loops")
)

// Import takes over the sessions of a predecessor, before Run. Their states are those of the time at. It owns the
// descriptors, also after an error.
func (s *Server) Import(states []relay.LoopState, at time.Time) (all relay.Imported, err error) {
	if len(states) != len(s.loops) {
		return all, fmt.Errorf("%w: %d", ErrLoops, len(states))
	}
	results, errs := make([]relay.Imported, len(states)), make([]error, len(states))
	var work sync.WaitGroup
	for i, l := range s.loops {
		work.Go(func() { results[i], errs[i] = l.adopt(&states[i], at) })
	}
	work.Wait()
	for _, one := range results {
		all.Add(one)
	}
	return all, errors.Join(errs...)
}

// adopt takes over the state of a predecessor's loop, before the loop runs.
func (l *loop) adopt(state *relay.LoopState, at time.Time) (all relay.Imported, err error) {
	sockets, ok := l.poller.(netio.Handover)
	if !ok {
		return all, ErrNoHandover
	}
	if err := sockets.Import(state.Sockets, state.Descriptors); err != nil {
		return all, err
	}
	if all, err = l.relay.Import(at, state, sockets); err != nil {
		return all, err
	}
	sockets.CloseUnclaimed()
	return all, nil
}

// TakeKernel gives the kernel's filters to a Server that has imported its sessions. It is called when the predecessor
// has ended: until then the predecessor's filters are in force, which know its clients.
func (s *Server) TakeKernel() {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	s.reloadKernel()
	k := &s.options.Kernel
	s.options.Log.Info().Str("filter", k.FilterState()).Str("forward", inKernel(k.NoFlows)).Msg("kernel offload")
}

// TakeSockets takes sockets that the predecessor gives before the sessions. It owns the descriptors, also after an
// error.
func (s *Server) TakeSockets(b GivenSockets) error {
	if b.Loop < 0 || b.Loop >= len(s.loops) {
		netio.CloseCopies(b.Descriptors)
		return ErrLoops
	}
	sockets, ok := s.loops[b.Loop].poller.(netio.Handover)
	if !ok {
		netio.CloseCopies(b.Descriptors)
		return ErrNoHandover
	}
	return sockets.Take(b.State, b.Descriptors)
}

// TakeCopies takes a batch of a predecessor's pre-copy, before Import. It restores the connections, and enters the
// sessions.
func (s *Server) TakeCopies(b CopiedSessions) error {
	if b.Loop < 0 || b.Loop >= len(s.loops) {
		return ErrLoops
	}
	l := s.loops[b.Loop]
	from, ok := l.poller.(netio.Handover)
	if !ok {
		return ErrNoHandover
	}
	return l.relay.TakeCopies(b.At, b.Batch, from)
}
