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

// ErrNoHandover reports a backend whose sockets cannot go to another process.
var ErrNoHandover = errors.New("only the epoll backend can hand sockets over")

// partBatch is how many sessions get their own socket in one turn of a loop. That takes about 2 ms.
const partBatch = 128

// Files returns copies of the listening sockets, loop by loop, for a successor's Options.Inherited. They include
// removed listeners, since their sessions still hold the addresses. The caller closes the files.
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

// part gives up to n sessions on a listener's socket their own socket, and reports whether there are more.
func (r *Relay) part(h netio.Handler, n int) (more bool, err error) {
	sockets, ok := r.sockets.untapped().(netio.Handover)
	if !ok {
		return false, ErrNoHandover
	}
	own := func(d *listener, face *netio.Socket, client netip.AddrPort) {
		if netio.ListenerOf(*face) != d.socket || more || err != nil {
			return // a stream, or done already
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

// leave gives the sessions that came meanwhile their own sockets, stops reading the listeners' sockets, and lets the
// sessions end.
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
