package proxy

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"slices"
	"time"

	"tidegate/internal/netio"
)

// ErrNoHandover is for a backend whose sockets cannot go to another process.
var ErrNoHandover = errors.New("only the epoll backend can hand sockets over")

// partBatch is how many sessions get a socket of their own in one turn of a loop, about 2 ms.
const partBatch = 128

// Files returns copies of the listening sockets, loop by loop, for a successor's Options.Inherited: also of listeners
// that were removed, since their addresses are taken while their sessions are there. The caller closes them.
func (s *Server) Files() (files []*os.File, err error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	attended := make(map[place]bool)
	for _, l := range s.loops {
		var own []*os.File
		if !l.ask(func(r *Relay, _ time.Time) { own, err = r.files(attended) }) {
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

// closeAll closes files after an error, which it returns.
func closeAll(files []*os.File, err error) error {
	for _, f := range files {
		_ = f.Close() // the error that matters is the one before
	}
	return err
}

// files returns copies of the listening sockets, and notes where they listen.
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

// HandOver leaves the listening sockets to a successor, which must not read them before this returns, and must from
// then on: every session gets a socket of its own, so that the kernel tells apart whose a datagram is. The sessions go
// on until they end by themselves, for as long as grace; then Run returns. An error leaves everything as it was.
func (s *Server) HandOver(grace time.Duration) error {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	for _, l := range s.loops {
		for more := true; more; {
			var err error
			if !l.ask(func(r *Relay, _ time.Time) { more, err = r.part(l, partBatch) }) {
				return ErrEnded
			}
			if err != nil {
				return fmt.Errorf("part sessions: %w", err)
			}
		}
	}
	for _, l := range s.loops {
		var err error
		if !l.ask(func(r *Relay, now time.Time) { err = r.leave(now, l, grace) }) {
			err = ErrEnded
		}
		if err != nil {
			return fmt.Errorf("leave listeners: %w", err)
		}
	}
	s.leaveInterfaces()
	return nil
}

// part gives up to n sessions that come by a listener's socket one of their own, and tells whether there are more.
func (r *Relay) part(h netio.Handler, n int) (more bool, err error) {
	sockets, ok := r.sockets.untapped().(netio.Handover)
	if !ok {
		return false, ErrNoHandover
	}
	own := func(d *listener, face *netio.Socket, client netip.AddrPort) {
		if netio.ListenerOf(*face) != d.socket || more || err != nil {
			return // a stream, or parted already
		}
		if n--; n < 0 {
			more = true
			return
		}
		var fresh netio.Socket
		if fresh, err = sockets.ConnectPeer(*face, client, h); err == nil {
			*face = fresh
		}
	}
	for e := range r.table.All {
		own(e.Value.listener, &e.Value.face, e.Value.via.to(e.Key.Client))
	}
	return more, err
}

// leave parts the sessions that came meanwhile, hears nothing more by the listeners' sockets, and lets the sessions
// end.
func (r *Relay) leave(now time.Time, h netio.Handler, grace time.Duration) error {
	if _, err := r.part(h, math.MaxInt); err != nil {
		return err
	}
	for _, d := range slices.Concat(r.listeners, r.retired.list) {
		r.sockets.untapped().(netio.Handover).StopReceiving(d.socket)
	}
	r.DrainBy(now, now.Add(grace))
	return nil
}
