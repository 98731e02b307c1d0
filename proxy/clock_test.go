package proxy

import (
	"bytes"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/riptide"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/upstream"
	"tidegate/proxy/relay"
)

// frozen is a poller in virtual time. The process can stand still at each point of a turn.
type frozen struct {
	*crowd
	loop    *loop
	until   time.Time // the longest that a wait may last
	waiting [][]byte  // the player's datagrams, in the listener's socket
	// durations of one standstill at each point
	wait, read, hand, flush time.Duration
}

const aPause = 12 * time.Second // longer than any time-out

func newFrozen(t *testing.T, clients codec.Protocol, mode policy.Mode, change func(*relay.Settings)) *frozen {
	p := &frozen{crowd: newVirtual(t, clients, mode, change)}
	p.loop = p.run(p)
	return p
}

func (p *frozen) pass(d *time.Duration) { p.now, *d = p.now.Add(*d), 0 }

// Wait implements netio.Poller. A past deadline, or input, ends it at once.
func (p *frozen) Wait(deadline time.Time) error {
	if deadline.IsZero() || deadline.After(p.until) {
		deadline = p.until
	}
	if len(p.waiting) == 0 && deadline.After(p.now) {
		p.now = deadline
	}
	p.pass(&p.wait)
	return nil
}

func (p *frozen) Receive(h netio.Handler) {
	p.pass(&p.read)
	if len(p.waiting) > 0 {
		h.(netio.ReadNotifier).AfterRead()
	}
	p.pass(&p.hand)
	for _, d := range p.waiting {
		h.Datagram(p.listener, crowdAddr(0), d)
	}
	p.waiting = nil
	h.(netio.DrainNotifier).InputDrained()
}

func (p *frozen) Flush() { p.pass(&p.flush) }

// turns runs the loop for a duration.
func (p *frozen) turns(d time.Duration) {
	p.t.Helper()
	for p.until = p.now.Add(d); p.now.Before(p.until); {
		p.turn(p.loop)
		p.now = p.now.Add(time.Millisecond)
	}
}

// alive fails the test if the player's session has ended, or a server counts as failed.
func (p *frozen) alive() {
	p.t.Helper()
	if closed := p.relay.Figures().Counters.Closed; closed != 0 || p.relay.Len() != 1 {
		p.t.Fatalf("%d sessions have ended, %d are there", closed, p.relay.Len())
	}
	for _, u := range p.server.Upstreams() {
		for _, s := range u.Servers {
			if s.State != upstream.Up {
				p.t.Fatalf("server %v is %v: %s", s.Addr, s.State, s.Cause)
			}
		}
	}
}

// pauses are the points of a turn at which a process can stand still.
var pauses = map[string]func(p *frozen) *time.Duration{
	"in the wait":                  func(p *frozen) *time.Duration { return &p.wait },
	"before the read":              func(p *frozen) *time.Duration { return &p.read },
	"before the hand-over":         func(p *frozen) *time.Duration { return &p.hand },
	"before the answer is flushed": func(p *frozen) *time.Duration { return &p.flush },
}

// TestPauseSparesNewcomers reads a client's first datagram in a turn in which the process stands still. The client
// still has all its time. So has the server that the proxy asks to admit it.
func TestPauseSparesNewcomers(t *testing.T) {
	for name, at := range pauses {
		t.Run(name, func(t *testing.T) {
			p := newFrozen(t, relay.Any, policy.ModeRelay, func(*relay.Settings) {})
			p.waiting = [][]byte{[]byte("hello")}
			*at(p) = aPause
			p.turns(time.Millisecond)
			p.turns(9 * time.Second) // of ten for its handshake
			p.alive()
		})
		t.Run(name+", terminated", func(t *testing.T) {
			protocol := riptide.New(riptide.Options{})
			p := newFrozen(t, protocol, policy.ModeTerminate, func(*relay.Settings) {})
			var b [codec.MaxDatagram]byte
			connect, _ := protocol.Dial(p.now, virtualListener, codec.Hello{}).Transmit(p.now, b[:0])
			p.waiting = [][]byte{bytes.Clone(connect)}
			*at(p) = 6 * time.Second // longer than the server's share of the handshake, shorter than the codecs' patience
			p.turns(time.Millisecond)
			p.turns(3 * time.Second)
			p.alive()
		})
	}
}

// TestPauseSparesPlayers asserts that a player plays on if its datagrams waited while the process stood still. The
// player's time-outs passed in the pause.
func TestPauseSparesPlayers(t *testing.T) {
	for name, at := range pauses {
		t.Run(name, func(t *testing.T) {
			p := newFrozen(t, relay.Any, policy.ModeRelay, func(s *relay.Settings) { s.IdleTimeout = 5 * time.Second })
			p.waiting = [][]byte{[]byte("hello")}
			p.turns(time.Millisecond)
			for _, s := range p.sockets {
				p.relay.Receive(p.now, s, s.peer, []byte("welcome"))
			}
			p.waiting = [][]byte{[]byte("thanks")}
			p.turns(time.Millisecond)
			*at(p) = aPause
			p.turn(p.loop) // this turn has not read the input of the pause
			p.waiting = [][]byte{[]byte("still here")}
			p.turns(4 * time.Second)
			p.alive()
			p.turns(3 * time.Second)
			if p.relay.Len() != 0 {
				t.Error("nothing times out any more")
			}
		})
	}
}

// TestPauseEnds asserts that due work runs after a pause, even if input never ends or no backend reports its end.
func TestPauseEnds(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	c := newClock(func() time.Time { return now })
	c.start()
	before := now
	now = now.Add(aPause)
	if c.look() != aPause || c.due() != before {
		t.Fatal("the pause is not seen")
	}
	turns := 0
	for ; c.due().Equal(before); turns++ {
		now = now.Add(time.Microsecond)
		c.wake(before)
	}
	if turns > mostCatchUp {
		t.Errorf("%d turns without deadlines", turns)
	}
	now = now.Add(time.Hour)
	if c.wake(time.Time{}) != 0 || c.due() != now {
		t.Error("a wait without a deadline is held to be a pause")
	}
}
