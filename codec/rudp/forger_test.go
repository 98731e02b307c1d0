package rudp

import (
	"math/rand/v2"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// forge returns a packet of a forger who guesses the numbers of a session: goodbyes, messages and packets without
// content. A session's numbers are small while it is young, but for a server's, which begin anywhere below 2^15.
func forge(rng *rand.Rand, _ bool) []byte {
	guess := func() seq {
		if rng.IntN(2) == 0 {
			return seq(rng.IntN(1100))
		}
		return seq(rng.Uint32() & 0x7fff)
	}
	p := packet{app: 0xbeef, seq: guess(), acks: acks{last: guess(), bits: rng.Uint32()}, kind: kindNotify}
	switch rng.IntN(3) {
	case 0:
		p.kind, p.data = kindData, []byte{1, 2, 3}
	case 1:
		p.kind = kindKeepAlive
	}
	return p.append(nil)
}

// TestForgedGoodbye gives a session a goodbye with correct numbers. The session lives while its peer goes on to send,
// and ends when it falls silent.
func TestForgedGoodbye(t *testing.T) {
	for _, f := range []struct {
		silent bool
		stop   time.Duration // in which the process stands still
	}{{silent: false}, {silent: true}, {stop: 500 * time.Millisecond}, {silent: true, stop: 500 * time.Millisecond}} {
		c, now := connectedServer(t)
		last, acked := c.received.last, c.flight.acked
		bye := packet{seq: last + 3, acks: acks{last: acked}, kind: kindNotify}
		if err := c.Receive(now, bye.append(nil)); err != nil {
			t.Fatal(err)
		}
		now = now.Add(f.stop)
		c.Advance(now) // before the loop has read anything
		over := time.Duration(0)
		for at := time.Duration(0); at < 2*time.Second && over == 0; at += c.period {
			if n := seq(at/c.period) + 1; !f.silent {
				alive := packet{seq: last + n, acks: acks{last: c.flight.next - 1, bits: ^uint32(0)}, kind: kindKeepAlive}
				if err := c.Receive(now.Add(at), alive.append(nil)); err != nil {
					t.Fatalf("after %v: %v", at, err)
				}
			}
			c.Advance(now.Add(at))
			codectest.Transmit(c, now.Add(at))
			for _, e := range codectest.Drain(c) {
				if e.Kind == codec.Disconnected && e.Reason == codec.Closed {
					over = at
				}
			}
		}
		if f.silent != (over > 0) || over > 400*time.Millisecond {
			t.Errorf("%+v: over after %v", f, over)
		}
	}
}

// TestForgedNumber gives a session a packet from far ahead. The peer's own packets still count, and so does a second
// packet that follows the first.
func TestForgedNumber(t *testing.T) {
	c, now := connectedServer(t)
	last := c.received.last
	packetOf := func(s seq) []byte {
		return (&packet{seq: s, acks: acks{last: c.flight.acked}, kind: kindKeepAlive}).append(nil)
	}
	for _, test := range []struct {
		seq  seq
		want error
	}{{last + 30, codec.ErrWindow}, {last + 1, nil}, {last + 5, nil}, {last + 20, codec.ErrWindow}, {last + 21, nil}} {
		if err := c.Receive(now, packetOf(test.seq)); err != test.want {
			t.Errorf("number %d: %v, want %v", test.seq-last, err, test.want)
		}
	}
}

// connectedServer returns a server's side in session.
func connectedServer(t *testing.T) (*Conn, time.Time) {
	t.Helper()
	c := accept(New(Options{}), start, address)
	c.Admit(start, 1)
	codectest.Transmit(c, start)
	hello := packet{seq: c.received.last + 1, acks: acks{last: c.flight.next - 1}, kind: kindKeepAlive}
	if err := c.Receive(start, hello.append(nil)); err != nil {
		t.Fatal(err)
	}
	codectest.Drain(c)
	return c, start
}
