package proxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"tidegate/internal/netio"
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

// isAt reports whether a socket at addr suits a listener, which may have left the port open.
func isAt(addr, listener netip.AddrPort) bool {
	return addr == listener || listener.Port() == 0 && addr.Addr() == listener.Addr()
}

// spare closes the inherited sockets without a use. A socket that no loop reads, at the address of a listener, would
// get a share of its clients. A service manager keeps the others open.
func (s *Server) spare(settings *Settings, addrs []netip.AddrPort) {
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
	errCut   = errors.New("a batch of sessions is cut off")

	errNoSocket = errors.New("a socket of the session is missing")
)

// Imported is the result of an Import.
type Imported struct {
	Sessions int
	Lost     int   // sessions that cannot go on
	Why      error // the first reason
}

// Import takes over the sessions of a predecessor, before Run. Their states are those of the time at. It owns the
// descriptors, also after an error.
func (s *Server) Import(states []LoopState, at time.Time) (all Imported, err error) {
	if len(states) != len(s.loops) {
		return all, fmt.Errorf("%w: %d", ErrLoops, len(states))
	}
	results, errs := make([]Imported, len(states)), make([]error, len(states))
	var work sync.WaitGroup
	for i, l := range s.loops {
		work.Go(func() { results[i], errs[i] = l.adopt(&states[i], at) })
	}
	work.Wait()
	for _, one := range results {
		all.Sessions += one.Sessions
		all.Lost += one.Lost
		if all.Why == nil {
			all.Why = one.Why
		}
	}
	return all, errors.Join(errs...)
}

// adopt takes over the state of a predecessor's loop, before the loop runs.
func (l *loop) adopt(state *LoopState, at time.Time) (all Imported, err error) {
	sockets, ok := l.poller.(netio.Handover)
	if !ok {
		return all, ErrNoHandover
	}
	if err := sockets.Import(state.Sockets, state.Descriptors); err != nil {
		return all, err
	}
	entering := beginImport(l.relay, at)
	if l.entering != nil {
		entering.copies, l.entering = l.entering.copies, nil
	}
	if err := entering.shared(state.Shared, notOpened); err != nil {
		return all, err
	}
	entering.keep(state.unchanged)
	var own []netio.Socket
	err = state.each(func(names, b []byte) bool {
		var lost error
		own, lost = entering.next(names, b, sockets, own[:0])
		all.count(lost)
		return true
	})
	if err != nil {
		return all, err
	}
	entering.end()
	sockets.CloseUnclaimed()
	return all, nil
}

// each calls visit with each session, until that returns false: the names of its sockets and its record. The record is
// empty if it is one of the pre-copy: then its ID is in place of the names.
func (s *LoopState) each(visit func(names, b []byte) bool) error {
	for _, rest := range s.Sessions {
		for len(rest) > 0 {
			names, more, ok := cutPiece(rest)
			b, more, whole := cutPiece(more)
			if !ok || !whole {
				return errCut
			}
			if !visit(names, b) {
				return nil
			}
			rest = more
		}
	}
	return nil
}

// unchanged yields the IDs of the sessions that are as in the pre-copy.
func (s *LoopState) unchanged(yield func(SessionID) bool) {
	_ = s.each(func(names, b []byte) bool {
		id, _ := binary.Uvarint(names)
		return len(b) > 0 || yield(SessionID(id))
	})
}

// next makes the next session again, or ends the import of one of the pre-copy. It returns the memory for the sockets.
func (i *importer) next(names, b []byte, from netio.Handover, own []netio.Socket) ([]netio.Socket, error) {
	if len(b) > 0 {
		own, found := namedSockets(own, from, names)
		if !found {
			return own, errNoSocket
		}
		return own, i.session(b, own)
	}
	id, _ := binary.Uvarint(names)
	one, err := i.takeCopy(SessionID(id))
	if err != nil {
		return own, err
	}
	own, found := namedSockets(own, from, one.names)
	if !found {
		one.leave(i.relay)
		return own, errNoSocket
	}
	return own, one.settle(i, own)
}

// notOpened opens no socket: the predecessor's configuration still has the listeners of all sessions.
func notOpened(netip.AddrPort) (netio.Socket, error) { return nil, errNoSocket }

// namedSockets appends the imported sockets with some names, and reports whether all were found.
func namedSockets(all []netio.Socket, from netio.Handover, names []byte) (_ []netio.Socket, found bool) {
	for len(names) > 0 {
		var s netio.Socket
		if s, names = from.Named(names); s == nil {
			return all, false
		}
		all = append(all, s)
	}
	return all, true
}

// count counts a session, with the error if it cannot go on.
func (i *Imported) count(err error) {
	if err == nil {
		i.Sessions++
		return
	}
	if i.Lost++; i.Why == nil {
		i.Why = err
	}
}

// cutPiece returns the first piece of b and the bytes after it.
func cutPiece(b []byte) (piece, rest []byte, ok bool) {
	n, head := binary.Uvarint(b)
	if head <= 0 || n > uint64(len(b)-head) {
		return nil, nil, false
	}
	return b[head : head+int(n)], b[head+int(n):], true
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
