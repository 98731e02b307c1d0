package proxy

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/proxy/stats"
)

// loop gives one Relay its sockets and its clock. Only post, ask and consult are for other goroutines.
type loop struct {
	relay   *Relay
	poller  netio.Poller
	clock   clock
	turns   stats.Turns
	sampler *strangerSampler // nil: none
	mailbox chan func(*Relay, time.Time)
	done    chan struct{} // closed when run has returned
	dropped uint64        // the last reported netio.Stats.KernelDrops
}

func newLoop(relay *Relay, poller netio.Poller) *loop {
	return &loop{
		relay: relay, poller: poller, clock: newClock(time.Now),
		mailbox: make(chan func(*Relay, time.Time), 16), done: make(chan struct{}),
	}
}

// run takes turns until the Relay is drained.
func (l *loop) run() error {
	defer close(l.done)
	defer func() { _ = l.poller.Close() }() // no data is left to lose
	l.clock.start()
	for !l.relay.Drained() {
		if err := l.turn(); err != nil {
			return err
		}
	}
	return nil
}

// turn waits for input or a deadline, and handles both.
func (l *loop) turn() error {
	deadline := l.next()
	if err := l.poller.Wait(deadline); err != nil {
		return err
	}
	l.stood(l.clock.wake(deadline))
	began := l.clock.now
	l.poller.Receive(l.handler())
	l.AfterRead()
	l.readMail()
	l.relay.Advance(l.clock.due())
	l.relay.Flush(l.clock.now)
	l.poller.Flush()
	l.AfterRead()
	if l.relay.paths.paced() {
		l.relay.paths.sent(l.clock.now)
	}
	if l.sampler != nil {
		l.sampler.turn(l.clock.now, l.relay)
	}
	l.turns.End(l.clock.now.Sub(began))
	return nil
}

// next returns the earliest deadline; zero means never.
func (l *loop) next() time.Time {
	next := l.relay.NextTimeout()
	if l.sampler != nil {
		next = codec.Earliest(next, l.sampler.due())
	}
	return next
}

// sockets returns the totals of the loop's sockets. The kernel counts a filter's drop twice: for the filter, and
// later for the socket. So the filters' drops are subtracted here. Between the two counts the total stays as it was.
func (l *loop) sockets() netio.Stats {
	s := l.poller.Stats()
	s.KernelDrops -= min(l.relay.known.gate.Drops(), s.KernelDrops)
	l.dropped = max(l.dropped, s.KernelDrops)
	s.KernelDrops = l.dropped
	return s
}

// AfterRead implements netio.ReadNotifier.
func (l *loop) AfterRead() {
	l.stood(l.clock.look())
	if l.relay.sockets.tap != nil {
		l.relay.sockets.tap.now = l.clock.now
	}
}

// stood tells the Relay of a pause, if there was one.
func (l *loop) stood(pause time.Duration) {
	if pause > 0 {
		l.relay.Stood(pause)
	}
}

// handler returns the handler of this turn's datagrams: the loop, or a tapped loop while a capture runs.
func (l *loop) handler() netio.Handler {
	if l.relay.sockets.tap == nil {
		return l
	}
	l.relay.sockets.tap.now = l.clock.now
	return tapped{l}
}

// tapped is a loop whose received datagrams are captured.
type tapped struct{ *loop }

// Datagram implements netio.Handler.
func (l tapped) Datagram(s netio.Socket, from netip.AddrPort, datagram []byte) {
	l.relay.sockets.tap.received(s, from, datagram)
	l.loop.Datagram(s, from, datagram)
}

// Datagram implements netio.Handler.
func (l *loop) Datagram(s netio.Socket, from netip.AddrPort, datagram []byte) {
	l.relay.Receive(l.clock.now, s, from, datagram)
}

// InputDrained implements netio.DrainNotifier.
func (l *loop) InputDrained() {
	l.clock.emptied = true
	l.relay.InputDrained()
}

// Refused implements netio.DropReporter.
func (l *loop) Refused() int { return l.relay.drops.turn }

// Failed implements netio.Handler.
func (l *loop) Failed(s netio.Socket, err error) { l.relay.Failed(l.clock.now, s, err) }

// post makes the loop call f on its own goroutine, between batches. It returns false if the loop has ended. It is
// safe for concurrent use.
func (l *loop) post(f func(*Relay, time.Time)) bool {
	select {
	case l.mailbox <- f:
		l.poller.Wake()
		return true
	case <-l.done:
		return false
	}
}

// ask posts f and waits until f has been called or the loop has ended. It reports whether f was called.
func (l *loop) ask(f func(*Relay, time.Time)) bool {
	called := make(chan struct{})
	if !l.post(func(r *Relay, now time.Time) {
		f(r, now)
		close(called)
	}) {
		return false
	}
	select {
	case <-called:
		return true
	case <-l.done:
		return isClosed(called) // f may have ended the loop
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// consult is ask with a limit: it waits until ctx is done. The caller must not use f after an error, since the loop
// may call it later.
func (l *loop) consult(ctx context.Context, f func(*Relay, time.Time)) error {
	called := make(chan struct{})
	command := func(r *Relay, now time.Time) {
		f(r, now)
		close(called)
	}
	select {
	case l.mailbox <- command:
		l.poller.Wake()
	case <-l.done:
		return ErrStopped
	case <-ctx.Done():
		return fmt.Errorf("%w: a loop does not answer", ctx.Err())
	}
	select {
	case <-called:
		return nil
	case <-l.done:
		if isClosed(called) {
			return nil
		}
		return ErrStopped
	case <-ctx.Done():
		return fmt.Errorf("%w: a loop does not answer", ctx.Err())
	}
}

func (l *loop) readMail() {
	for {
		select {
		case f := <-l.mailbox:
			f(l.relay, l.clock.now)
		default:
			return
		}
	}
}
