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
