package proxy

import (
	"context"
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

// A pre-copy shortens the standstill of a handover, as in the live migration of virtual machines. While the loops run,
// they give the successor their sockets to servers, and write all calm sessions. The successor enters them. Further
// passes repeat this for the sessions that have changed meanwhile. At the standstill, an unchanged session needs only
// its ID. The successor removes the sessions that have ended or changed.

const (
	// mostPasses bounds the passes of a pre-copy.
	mostPasses = 32
	// passesTime bounds the time of a pre-copy.
	passesTime = 10 * time.Second
	// fewChanged ends a pre-copy: the last pass has written at most one of so many sessions.
	fewChanged = 64
	// leastGain is the gain of a pass for a further one: it has written fewer sessions than the one before, or was
	// shorter, by one of so many. On a busy machine with 10,000 sessions, each pass writes about half of the sessions of
	// the one before.
	leastGain = 8
	// restTime is the wait between two looks at a loop that is behind. To copy then would take time that it does not
	// have: peers would repeat themselves, and sessions would end.
	restTime = 2 * time.Millisecond
)

// CopiedSessions is a batch of a pre-copy, for Server.TakeCopies.
type CopiedSessions struct {
	Loop  int
	At    time.Time // stands for the moment of saving
	Batch []byte    // valid until the next one
}

// GivenSockets are sockets of a loop that a successor gets before the sessions, for Server.TakeSockets.
type GivenSockets struct {
	Loop        int
	State       []byte // netio's
	Descriptors []int
}

// Heir is the successor of a pre-copy. Both methods return when the successor has what they give.
type Heir interface {
	GiveSockets(GivenSockets) error
	GiveSessions(CopiedSessions) error
}

// Precopy copies the sessions of all loops to the successor that the next Freeze is for, in several passes.
func (s *Server) Precopy(ctx context.Context, to Heir) (err error) {
	s.precopied.Store(false)
	defer func() {
		if err == nil {
			return
		}
		for _, l := range s.loops { // frees the memory of the copies; the loop may have ended
			_ = l.consult(ctx, stats.WorkHandover, func(r *relay.Relay, _ time.Time) { r.EndCopies() })
		}
	}()
	for i, l := range s.loops {
		if err := l.giveSockets(ctx, i, to); err != nil {
			return err
		}
		err := l.consult(ctx, stats.WorkHandover, func(r *relay.Relay, _ time.Time) { r.BeginCopies(l.poller) })
		if err != nil {
			return err
		}
	}
	until := time.Now().Add(passesTime)
	var g gains
	for turn := 0; turn < mostPasses && time.Now().Before(until); turn++ {
		began, copied, all := time.Now(), 0, 0
		for i, l := range s.loops {
			p := pass{loop: l, number: i, gentle: turn == 0, until: until}
			if err := p.run(ctx, to); err != nil {
				return err
			}
			copied, all = copied+p.copied, all+p.all
		}
		if g.end(copied, all, time.Since(began)) {
			break
		}
	}
	s.precopied.Store(true)
	return nil
}

// gains decide when the passes of a pre-copy end.
type gains struct {
	copied int           // sessions in the last pass; 0: there was none
	took   time.Duration // the last pass
	least  time.Duration // the shortest pass
}

// end adds a pass, and reports whether a further one would find as many changed sessions. Those are about the sessions
// that have changed in this pass. So it does not end after a pass that was slow by chance.
func (g *gains) end(copied, all int, took time.Duration) bool {
	before := *g
	g.copied, g.took, g.least = copied, took, took
	if before.copied == 0 {
		return copied <= all/fewChanged
	}
	g.least = min(took, before.least)
	return copied <= all/fewChanged || copied > before.copied-before.copied/leastGain &&
		took > before.took-before.took/leastGain && took <= g.least*3/2
}

// giveSockets gives the connected sockets of the loop, which is the one with this number.
func (l *loop) giveSockets(ctx context.Context, number int, to Heir) error {
	sockets, ok := l.poller.(netio.Handover)
	if !ok {
		return ErrNoHandover
	}
	for first, more := true, true; more; first = false {
		b := GivenSockets{Loop: number}
		err := l.consult(ctx, stats.WorkHandover, func(*relay.Relay, time.Time) {
			b.State, b.Descriptors, more = sockets.Give(first)
		})
		if err == nil {
			err = to.GiveSockets(b)
		}
		netio.CloseCopies(b.Descriptors)
		if err != nil {
			return err
		}
	}
	return nil
}

// pass is a pass of a pre-copy over the sessions of a loop.
type pass struct {
	*loop
	number      int
	gentle      bool      // the machine has half of the time for other work
	until       time.Time // it ends, whether it has reached all sessions or not
	copied, all int       // sessions so far, and all of the loop
}

// run makes the pass, in pieces. A piece is with the successor before the loop writes the next one, and the loop keeps
// up with its sockets before that.
func (p *pass) run(ctx context.Context, to Heir) error {
	for first, more := true, true; more; first = false {
		began, behind := time.Now(), false
		b, n := CopiedSessions{Loop: p.number}, 0
		err := p.consult(ctx, stats.WorkHandover, func(r *relay.Relay, now time.Time) {
			c := r.CopySome(now)
			b.Batch, b.At, n = c.Batch, now, c.Count
			more, p.all, behind = c.More, c.All, r.Behind()
		})
		if err == nil && (n > 0 || first) {
			err = to.GiveSessions(b)
		}
		if p.copied += n; err != nil {
			return err
		}
		rest := time.Duration(0)
		if p.gentle {
			rest = time.Since(began)
		}
		if err := p.rest(ctx, rest, behind); err != nil {
			return err
		}
		if more && time.Now().After(p.until) {
			return p.consult(ctx, stats.WorkHandover, func(r *relay.Relay, _ time.Time) { r.EndCopyPass() })
		}
	}
	return nil
}

// rest waits for a time, and longer while the loop is behind.
func (p *pass) rest(ctx context.Context, d time.Duration, behind bool) error {
	if d == 0 && !behind {
		return nil
	}
	wake := time.NewTimer(d)
	defer wake.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake.C:
		}
		err := p.consult(ctx, stats.WorkHandover, func(r *relay.Relay, _ time.Time) { behind = r.Behind() })
		if err != nil || !behind || time.Now().After(p.until) {
			return err
		}
		wake.Reset(restTime)
	}
}
