package proxy

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"tidegate/internal/netio"
	"tidegate/proxy/stats"
)

// Files returns copies of the listening sockets, loop by loop, for a successor's Options.Inherited. They include
// removed listeners, since their sessions still hold the addresses. The caller closes the files.
func (s *Server) Files() (files []*os.File, err error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	attended := make(map[place]bool)
	for _, l := range s.loops {
		var own []*os.File
		if !l.ask(stats.WorkHandover, func(r *Relay, _ time.Time) { own, err = r.files(attended) }) {
			err = ErrEnded
		}
		files = append(files, own...)
		if err != nil {
			return nil, closeAll(files, err)
		}
	}
	rest, err := s.unattended(attended)
	files = append(files, rest...)
	if err != nil {
		return nil, closeAll(files, err)
	}
	return files, nil
}

// closeAll closes files after an error, and returns that error.
func closeAll(files []*os.File, err error) error {
	for _, f := range files {
		_ = f.Close() // the earlier error matters more
	}
	return err
}

// files returns copies of the Relay's listening sockets, and notes their places.
func (r *Relay) files(attended map[place]bool) (files []*os.File, err error) {
	sockets, ok := r.sockets.untapped().(netio.Handover)
	if !ok {
		return nil, ErrNoHandover
	}
	for _, d := range slices.Concat(r.listeners, r.retired.list) {
		file, err := sockets.File(d.socket)
		if err != nil {
			return files, err
		}
		files = append(files, file)
		attended[place{d.socket.Addr(), d.stream}] = true
	}
	return files, nil
}

// HandOver leaves the listening sockets to a successor. The successor must not read them before HandOver returns, and
// must read them from then on. Every session gets its own socket, so that the kernel gives each process its own
// datagrams. The sessions go on until they end, for at most grace. Then Run returns. After an error everything is as
// before.
func (s *Server) HandOver(grace time.Duration) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	youngest := make([]SessionID, len(s.loops)) // the youngest session with its own socket
	for i, l := range s.loops {
		var err error
		if l.walk(context.Background(), stats.WorkHandover, parting(l, &youngest[i], &err)) != nil {
			return ErrEnded
		}
		if err != nil {
			return fmt.Errorf("part sessions: %w", err)
		}
	}
	for i, l := range s.loops {
		var err error
		if !l.ask(stats.WorkHandover, func(r *Relay, now time.Time) { err = r.leave(now, l, youngest[i], grace) }) {
			err = ErrEnded
		}
		if err != nil {
			return fmt.Errorf("leave listeners: %w", err)
		}
	}
	s.leaveInterfaces()
	return nil
}

// parting returns a visit that gives a session its own socket, and notes its ID. An error ends the walk.
func parting(h netio.Handler, youngest *SessionID, failed *error) visit {
	return func(r *Relay, _ time.Time, e *entry) int {
		did, err := r.part(h, e)
		if err != nil {
			*failed = err
			return enough
		}
		if *youngest = e.Value.serial; did {
			return parted
		}
		return looked
	}
}

// part gives a session on a listener's socket its own socket. It reports false if the session has one.
func (r *Relay) part(h netio.Handler, e *entry) (did bool, err error) {
	sockets, ok := r.sockets.untapped().(netio.Handover)
	if !ok {
		return false, ErrNoHandover
	}
	p := &e.Value
	if netio.ListenerOf(p.face) != p.listener.socket {
		return false, nil // a stream, or done already
	}
	fresh, err := sockets.ConnectPeer(p.face, p.via.to(e.Key.Client), h)
	if err == nil {
		p.face = fresh
	}
	return true, err
}

// leave gives the sessions that are younger than another their own sockets, stops reading the listeners' sockets, and
// lets the sessions end.
func (r *Relay) leave(now time.Time, h netio.Handler, youngest SessionID, grace time.Duration) error {
	if _, ok := r.sockets.untapped().(netio.Handover); !ok {
		return ErrNoHandover
	}
	for e := range r.table.Backward {
		if e.Value.serial <= youngest {
			break
		}
		if _, err := r.part(h, e); err != nil {
			return err
		}
	}
	for _, d := range slices.Concat(r.listeners, r.retired.list) {
		r.sockets.untapped().(netio.Handover).StopReceiving(d.socket)
	}
	r.DrainBy(now, now.Add(grace))
	return nil
}

// unattended returns copies of the inherited sockets that no loop reads.
func (s *Server) unattended(attended map[place]bool) (files []*os.File, err error) {
	for _, from := range s.inherited {
		if attended[from.place] {
			continue
		}
		file, err := netio.Duplicate(from.file)
		if err != nil {
			return files, err
		}
		files = append(files, file)
	}
	return files, nil
}

// spare closes the inherited sockets without a use. A socket that no loop reads, at the address of a listener, would
// get a share of its clients. Only a service manager keeps TCP sockets open.
func (s *Server) spare(settings *Settings, addrs []netip.AddrPort) {
	listening := make(map[place]bool)
	for i, addr := range addrs {
		listening[place{addr, settings.Listeners[i].Transport.Stream}] = true
	}
	s.inherited = slices.DeleteFunc(s.inherited, func(from inherited) bool {
		idle := from.loop < 0 && listening[from.place]
		if !idle && (!from.stream || s.options.OthersGone == nil) {
			return false
		}
		_ = from.file.Close()
		return true
	})
}

// warnOfInherited logs the sockets of a service manager that match no listener. Sockets of a predecessor may belong
// to removed listeners.
func (s *Server) warnOfInherited() {
	for _, from := range s.inherited {
		if from.loop < 0 && s.options.OthersGone == nil {
			s.options.Log.Warn().Stringer("address", from.addr).Msg("inherited socket that no listener has the address of")
		}
	}
}

// awaitOthers closes the inherited sockets once the other processes have ended, unless ctx is done earlier.
func (s *Server) awaitOthers(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-s.options.OthersGone: // nil for a service manager, which outlives this process
		s.disown()
	}
}

// disown closes the inherited sockets. Loops have their own copies.
func (s *Server) disown() {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	for _, from := range s.inherited {
		_ = from.file.Close()
	}
	s.inherited = nil
}
