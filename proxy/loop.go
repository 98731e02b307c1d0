package proxy

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/kernel/shield"
	"tidegate/internal/netio"
	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
)

// loop gives one Relay its sockets and its clock. Only post, ask and consult are for other goroutines.
type loop struct {
	netio.Foreseer // relay
	relay          *relay.Relay
	poller         netio.Poller
	gate           *shield.Gate // before the listeners' sockets; nil: none
	clock          clock
	turns          stats.Turns
	sampler        *strangerSampler // nil: none
	lapped         time.Time        // when the last part of this turn ended
	mailbox        chan command
	done           chan struct{} // closed when run has returned
	dropped        uint64        // the last reported netio.Stats.KernelDrops
	left           bool          // a successor has the sessions
}

// command is work that another goroutine asks of a loop.
type command struct {
	work stats.Work
	do   func(*relay.Relay, time.Time)
}

func newLoop(relay *relay.Relay, poller netio.Poller, gate *shield.Gate) *loop {
	return &loop{
		Foreseer: relay, relay: relay, poller: poller, gate: gate, clock: newClock(time.Now),
		mailbox: make(chan command, 16), done: make(chan struct{}),
	}
}

// run takes turns until the Relay is drained, or a successor has its sessions.
func (l *loop) run() error {
	defer close(l.done)
	defer l.end()
	l.clock.start()
	for !l.left && !l.relay.Drained() {
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
	l.lapped = began
	l.poller.Receive(l)
	l.lap(stats.WorkReceive)
	if l.readMail(); l.left {
		return nil
	}
	l.relay.Advance(l.clock.due())
	l.lap(stats.WorkDue)
	l.relay.Flush(l.clock.now)
	l.lap(stats.WorkWrite)
	l.poller.Flush()
	l.lap(stats.WorkSend)
	l.relay.Sent(l.clock.now)
	if l.sampler != nil {
		l.sampler.turn(l.clock.now, l.relay)
		l.lap(stats.WorkSample)
	}
	l.turns.End(l.clock.now, l.clock.now.Sub(began))
	return nil
}

// lap looks at the clock after a part of a turn, and counts the part's time.
func (l *loop) lap(w stats.Work) {
	l.stood(l.clock.look())
	l.turns.Part(w, l.clock.now.Sub(l.lapped))
	l.lapped = l.clock.now
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
	s.KernelDrops -= min(l.gate.Drops(), s.KernelDrops)
	l.dropped = max(l.dropped, s.KernelDrops)
	s.KernelDrops = l.dropped
	return s
}

// AfterRead implements netio.ReadNotifier.
func (l *loop) AfterRead() { l.lap(stats.WorkReceive) }

// stood tells the Relay of a pause, if there was one.
func (l *loop) stood(pause time.Duration) {
	if pause > 0 {
		l.relay.Stood(pause)
	}
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
func (l *loop) Refused() int { return l.relay.Refused() }

// Failed implements netio.Handler.
func (l *loop) Failed(s netio.Socket, err error) { l.relay.Failed(l.clock.now, s, err) }
