package proxy

import (
	"errors"
	"runtime"
	"sync"
	"time"

	"tidegate/internal/netio"
	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
)

// ErrNoHandover reports a backend whose sockets cannot go to another process.
var ErrNoHandover = errors.New("only the epoll backend can hand sockets over")

// ErrLeaving reports a Server whose sessions move to other nodes: no successor can go on with that.
var ErrLeaving = errors.New("this process moves its sessions to the fleet, and then ends")

// Listening returns copies of the listening sockets, loop by loop, for a successor's Options.Inherited. They
// include removed listeners, since their sessions still use them. The caller closes them by netio.CloseCopies.
func (s *Server) Listening() (copies []int, err error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	attended := make(map[place]bool)
	for _, l := range s.loops {
		var own []int
		if !l.ask(stats.WorkHandover, func(r *relay.Relay, _ time.Time) { own, err = l.copies(attended) }) {
			err = relay.ErrEnded
		}
		if copies = append(copies, own...); err != nil {
			netio.CloseCopies(copies)
			return nil, err
		}
	}
	rest, err := s.unattended(attended)
	if copies = append(copies, rest...); err != nil {
		netio.CloseCopies(copies)
		return nil, err
	}
	return copies, nil
}

// copies returns copies of the loop's listening sockets, and notes their places.
func (l *loop) copies(attended map[place]bool) (copies []int, err error) {
	sockets, ok := l.poller.(netio.Handover)
	if !ok {
		return nil, ErrNoHandover
	}
	if l.relay.Leaving() {
		return nil, ErrLeaving
	}
	for s, stream := range l.relay.ListenerSockets {
		fd, err := sockets.Copy(s)
		if err != nil {
			return copies, err
		}
		copies = append(copies, fd)
		attended[place{s.Addr(), stream}] = true
	}
	return copies, nil
}

// unattended returns copies of the inherited sockets that no loop reads.
func (s *Server) unattended(attended map[place]bool) (copies []int, err error) {
	for _, from := range s.inherited {
		if attended[from.place] {
			continue
		}
		fd, err := netio.Duplicate(from.fd)
		if err != nil {
			return copies, err
		}
		copies = append(copies, fd)
	}
	return copies, nil
}

// Frozen is a Server whose loops stand still, so that a successor can take its sessions. Datagrams wait in the
// kernel. Either Thaw or Leave ends the standstill.
type Frozen struct {
	server *Server
	loops  []*frozenLoop
}

// frozenLoop is a loop that stands still.
type frozenLoop struct {
	*loop
	write  func(workers int) (shared []byte, sessions []func() []byte) // the Relay's Export
	copied bool                                                        // the successor has the last pre-copy
	leave  chan bool                                                   // true: the successor has the sockets
}

// Freeze stops all loops between two turns, when their datagrams have left. It first waits for a reload under way.
func (s *Server) Freeze() (*Frozen, error) {
	s.reloading.Lock()
	f := &Frozen{server: s}
	copied := s.precopied.Swap(false) // for this successor only
	for _, l := range s.loops {
		if _, ok := l.poller.(netio.Handover); !ok {
			f.Thaw()
			return nil, ErrNoHandover
		}
		stopped := make(chan *frozenLoop)
		if !l.post(stats.WorkHandover, func(r *relay.Relay, now time.Time) { l.freeze(now, copied, stopped) }) {
			f.Thaw()
			return nil, relay.ErrEnded
		}
		select {
		case frozen := <-stopped:
			if f.loops = append(f.loops, frozen); frozen.relay.Leaving() { // since Listening
				f.Thaw()
				return nil, ErrLeaving
			}
		case <-l.done:
			f.Thaw()
			return nil, relay.ErrEnded
		}
	}
	return f, nil
}

// freeze stands still until the Frozen Server thaws or leaves. It runs on the loop's goroutine. copied reports that the
// successor has the last pre-copy.
func (l *loop) freeze(now time.Time, copied bool, stopped chan<- *frozenLoop) {
	write := l.relay.Export(now, copied, l.poller.(netio.Handover))
	f := &frozenLoop{loop: l, write: write, copied: copied, leave: make(chan bool)}
	l.poller.Flush()
	stopped <- f
	l.left = <-f.leave
	l.relay.EndCopies()
}

// end closes the sockets of a loop that takes no more turns.
func (l *loop) end() {
	if l.left {
		l.poller.(netio.Handover).Leave()
	}
	_ = l.poller.Close() // no data is left to lose
}

// Thaw makes the Server go on as if nothing had happened.
func (f *Frozen) Thaw() { f.end(false) }

// Leave ends the Server, which leaves all its sessions to the successor. Run returns nil.
func (f *Frozen) Leave() {
	f.server.leaveInterfaces()
	f.end(true)
}

func (f *Frozen) end(leave bool) {
	for _, l := range f.loops {
		l.leave <- leave
	}
	f.server.reloading.Unlock()
}

// Export returns the state of all loops. The descriptors stay the Server's.
func (f *Frozen) Export() []relay.LoopState {
	states := make([]relay.LoopState, len(f.loops))
	var all sync.WaitGroup
	for i, l := range f.loops {
		all.Go(func() { states[i] = l.export(max(1, runtime.GOMAXPROCS(0)/len(f.loops))) })
	}
	all.Wait()
	return states
}

// export writes the loop's sessions in batches, with several workers at a time.
func (l *frozenLoop) export(workers int) (s relay.LoopState) {
	s.Sockets, s.Descriptors = l.poller.(netio.Handover).Export(l.copied)
	shared, batches := l.write(workers)
	s.Shared, s.Sessions = shared, make([][]byte, len(batches))
	var all sync.WaitGroup
	for i, write := range batches {
		all.Go(func() { s.Sessions[i] = write() })
	}
	all.Wait()
	return s
}
