package rtype

import (
	"bytes"
	"testing"
	"time"

	"tidegate/codec"
)

// maxFuzzed bounds the bytes of one dialogue: longer ones only take longer.
const maxFuzzed = 2000

// FuzzReceive cuts data into datagrams and gives them to both sides of each dialect, and as messages to send.
// Whatever they are, nothing panics, the contract's order of events holds, what a client's side delivers a server's
// side can send, and memory stays bounded.
func FuzzReceive(f *testing.F) {
	for _, d := range []string{
		startHex, "08" + names8, "100003" + "0808" + "5000506f736974696f6e", "18000001" + "2801000000010000",
		goodbyeHex, "2070696e67", "2070696e67" + "28030001" + "0000aabb", "080a" + "0800",
	} {
		f.Add(unhex(f, d))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > maxFuzzed {
			return
		}
		for d := range Dialect(len(formats)) {
			o := Options{Dialect: d, Refresh: 100 * time.Millisecond, MaxQueued: 1 << 12, MaxWorld: 1 << 12, MaxRate: 20}
			p := New(o)
			s := accept(&p.options, start, p.options.format(), []byte{1})
			s.Admit(start, 0)
			fuzzDialogue(t, s, p.Dial(start, address, codec.Hello{}).(*client), data)
		}
	})
}

func fuzzDialogue(t *testing.T, s *server, c *client, data []byte) {
	now := start
	watches := []*watcher{{t: t, c: s}, {t: t, c: c}}
	relayed := accept(c.options, start, format{}, nil)
	relayed.Admit(start, 0)
	for rest := data; len(rest) > 0; {
		n := min(int(rest[0]>>3)+1, len(rest))
		d := rest[1:n]
		now = now.Add(time.Duration(rest[0]&7) * 40 * time.Millisecond)
		for _, w := range watches {
			_ = w.c.Receive(now, bytes.Clone(d)) // most are refused
			for _, m := range w.drain() {
				if w.c == c {
					checkRelayed(t, relayed, now, m)
				}
			}
			w.c.Advance(now)
			w.drain()
			_ = w.c.Send(now, codec.Message{Payload: d, Receipt: 1})
		}
		if q := max(s.Stats().Queued, c.Stats().Queued); q > 1<<12 || s.mirror.bytes > 1<<12 {
			t.Fatalf("%d bytes queued, %d bytes of world", q, s.mirror.bytes)
		}
		if rest[0]&1 != 0 {
			transmit(s, now)
			transmit(c, now)
		}
		rest = rest[n:]
	}
	for _, w := range watches {
		w.c.Close(now, codec.Goodbye{Reason: codec.Closed, Data: data})
		w.drain()
		transmit(w.c, now)
		if !w.over {
			t.Error("not disconnected after Close")
		}
	}
}

// checkRelayed sends a message on, which a client's side has delivered.
func checkRelayed(t *testing.T, s *server, now time.Time, payload []byte) {
	t.Helper()
	err := s.Send(now, codec.Message{Payload: payload})
	transmit(s, now)
	if err != nil && err != codec.ErrTooLarge {
		t.Errorf("delivered %x, which cannot be sent on: %v", payload, err)
	}
}

// watcher checks the order of a Conn's events.
type watcher struct {
	t               *testing.T
	c               codec.Conn
	connected, over bool
}

// drain returns the messages received.
func (w *watcher) drain() (messages [][]byte) {
	for _, e := range drain(w.c) {
		switch {
		case w.over:
			w.t.Errorf("%v after Disconnected", e.Kind)
		case e.Kind == codec.Connected && w.connected:
			w.t.Error("Connected twice")
		case e.Kind == codec.Received && !w.connected:
			w.t.Error("Received before Connected")
		case e.Kind == codec.Received:
			messages = append(messages, e.Payload)
		}
		w.connected = w.connected || e.Kind == codec.Connected
		w.over = w.over || e.Kind == codec.Disconnected
	}
	return messages
}
