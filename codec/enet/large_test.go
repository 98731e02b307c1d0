package enet

import (
	"bytes"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// TestLargeMessages: the largest messages arrive whole and in their place, over a path that loses every fiftieth
// datagram. They exceed the queue, and the default in bytes or the numbers that may be in flight. Both
// ends are saved and restored under way.
func TestLargeMessages(t *testing.T) {
	for name, o := range map[string]Options{
		"default":        {},
		"many fragments": {MTU: minMTU, MaxMessage: 12 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			o = o.withDefaults()
			now, conns := joinedBy(t, o)
			large := make([]byte, o.MaxMessage)
			for i := range large {
				large[i] = byte(i >> 12)
			}
			sent := [][]byte{[]byte("before"), large, []byte("after")}
			for _, payload := range sent {
				if err := conns[1].Send(now, codec.Message{Mode: codec.ReliableOrdered, Payload: payload}); err != nil {
					t.Fatal(err)
				}
			}
			for round, lost := 0, 0; len(sent) > 0 || conns[1].out.bytes > 0; round++ {
				if round == 200 || round == 400 {
					conns = restored(t, now, o, conns)
				}
				if now = now.Add(5 * time.Millisecond); now.Sub(start) > 10*time.Minute {
					t.Fatalf("%d messages are missing", len(sent))
				}
				for i, c := range conns {
					c.Advance(now)
					for _, d := range codectest.Transmit(c, now) {
						if lost++; lost%50 != 0 {
							_ = conns[1-i].Receive(now, d)
						}
						for _, e := range codectest.Drain(conns[1-i]) {
							if len(sent) == 0 || e.Kind != codec.Received || !bytes.Equal(e.Payload, sent[0]) {
								t.Fatalf("got %v of %d bytes", e.Kind, len(e.Payload))
							}
							sent = sent[1:]
						}
					}
				}
			}
			if n := conns[1].out.uncounted; n != 0 {
				t.Errorf("%d bytes are not counted, want none", n)
			}
		})
	}
}

func restored(t *testing.T, now time.Time, o Options, conns [2]*Conn) (again [2]*Conn) {
	t.Helper()
	for i, c := range conns {
		codectest.Transmit(c, now)
		r, err := New(seeded(uint64(i+1), o)).Restore(now, nil, c.Save(now, nil))
		if err != nil {
			t.Fatal(err)
		}
		again[i] = r.(*Conn)
	}
	return again
}

// TestGiantEndsSoon: a message beyond the bound ends the connection soon, over a path with delay and losses too.
func TestGiantEndsSoon(t *testing.T) {
	for _, trip := range []time.Duration{5 * time.Millisecond, 200 * time.Millisecond} {
		for sender := range 2 {
			o := Options{}.withDefaults()
			now, conns := joinedBy(t, o)
			small := Options{MaxMessage: 1 << 20}.withDefaults()
			conns[1-sender].options = &small
			message := codec.Message{Mode: codec.ReliableOrdered, Payload: make([]byte, small.MaxMessage+1), Channel: 1}
			if err := conns[sender].Send(now, message); err != nil {
				t.Fatal(err)
			}
			n := 0
			for began := now; conns[1-sender].state != closed; now = now.Add(trip) {
				if now.Sub(began) > 3*time.Second {
					t.Fatalf("sender %d, round trip %v: not ended after 3 s", sender, trip)
				}
				for i, c := range conns {
					c.Advance(now)
					for _, d := range codectest.Transmit(c, now) {
						if n++; n%10 != 0 {
							_ = conns[1-i].Receive(now, d)
						}
					}
				}
			}
			if got := codectest.Drain(conns[1-sender]); len(got) == 0 || got[len(got)-1].Reason != codec.Overflow {
				t.Errorf("ended with %v, want overflow", got)
			}
			for _, d := range codectest.Transmit(conns[1-sender], now) {
				_ = conns[sender].Receive(now, d)
			}
			if conns[sender].farewell.heard.IsZero() {
				t.Error("the sender is told nothing")
			}
		}
	}
}

// TestForgedGiants: parts of a message beyond the bound end no connection whose channel goes on, nor if they are rare
// or not of the due message.
func TestForgedGiants(t *testing.T) {
	for name, forger := range map[string]struct {
		ahead uint16
		every time.Duration
		talks bool
	}{
		"goes on": {1, 10 * time.Millisecond, true},
		"rare":    {1, 200 * time.Millisecond, false},
		"not due": {2, 10 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			now, conns := joinedBy(t, Options{}.withDefaults())
			for end := now.Add(20 * time.Second); now.Before(end); now = now.Add(forger.every) {
				next := conns[0].in.channel(0).reliable
				part := fragment{start: next + forger.ahead, count: 1 << 14, total: 20 << 20}
				if err := conns[0].Receive(now, appendPart(forgedHead(now, conns), part, 1300)); err == nil {
					t.Fatal("a part is taken")
				}
				if forger.talks {
					_ = conns[1].Send(now, codec.Message{Mode: codec.ReliableOrdered, Payload: []byte{1}})
				}
				exchange(now, conns)
			}
			if conns[0].state != connected {
				t.Error("the connection has ended")
			}
		})
	}
}
