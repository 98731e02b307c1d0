package rtype

import (
	"bytes"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// maxFuzzed bounds the bytes of one dialogue. Longer inputs only take longer.
const maxFuzzed = 2000

// FuzzReceive cuts data into datagrams. It gives them to both sides of each dialect, and also as messages to send.
// Nothing may panic, the contract's order of events holds, and memory stays bounded. A server's side can send every
// message that a client's side delivers.
func FuzzReceive(f *testing.F) {
	for _, d := range []string{
		"10050000415a" + "1806000118", "180100011002", startHex, "08" + names8, "100003" + "0808" + "5000506f736974696f6e",
		"18000001" + "2801000000010000",
		goodbyeHex, "2070696e67", "2070696e67" + "28030001" + "0000aabb", "080a" + "0800",
	} {
		f.Add(codectest.Unhex(f, d))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > maxFuzzed {
			return
		}
		for d := range Dialect(len(formats)) {
			o := Options{
				Dialect: d, Refresh: 100 * time.Millisecond, MaxQueued: 1 << 12, MaxWorld: 1 << 12, MaxRate: 20,
				Copies: 1 + len(data)%4, Seed: [32]byte{byte(len(data)) & 2},
			}
			p := New(o)
			opener := []byte{byte(len(data)) & 1}
			if d == GameLast {
				opener = nil
			}
			s := accept(&p.options, start, p.options.format(), opener, p.options.newSecret(start, address))
			s.Admit(start, 0)
			fuzzDialogue(t, s, p.Dial(start, address, codec.Hello{}).(*client), data)
		}
	})
}

func fuzzDialogue(t *testing.T, s *server, c *client, data []byte) {
	now := start
	watches := []*codectest.Watcher{{T: t, Conn: s}, {T: t, Conn: c}}
	relayed := accept(c.options, start, format{}, nil, secret{})
	relayed.Admit(start, 0)
	for rest := data; len(rest) > 0; {
		n := min(int(rest[0]>>3)+1, len(rest))
		d := rest[1:n]
		now = now.Add(time.Duration(rest[0]&7) * 40 * time.Millisecond)
		for _, w := range watches {
			_ = w.Conn.Receive(now, bytes.Clone(d)) // most are refused
			for _, e := range w.Drain() {
				if w.Conn == c && e.Kind == codec.Received {
					checkRelayed(t, relayed, now, e.Payload)
				}
			}
			w.Conn.Advance(now)
			w.Drain()
			_ = w.Conn.Send(now, codec.Message{Payload: d, Receipt: 1})
		}
		if q := max(s.Stats().Queued, c.Stats().Queued); q > 1<<12 || s.mirror.bytes > 1<<12 {
			t.Fatalf("%d bytes queued, %d bytes of world", q, s.mirror.bytes)
		}
		if rest[0]&1 != 0 {
			codectest.Transmit(s, now)
			codectest.Transmit(c, now)
		}
		rest = rest[n:]
	}
	for _, w := range watches {
		w.Conn.Close(now, codec.Goodbye{Reason: codec.Closed, Data: data})
		w.Drain()
		codectest.Transmit(w.Conn, now)
		if !w.Over() {
			t.Error("not disconnected after Close")
		}
	}
}

// checkRelayed sends a message that a client's side has delivered.
func checkRelayed(t *testing.T, s *server, now time.Time, payload []byte) {
	t.Helper()
	err := s.Send(now, codec.Message{Payload: payload})
	codectest.Transmit(s, now)
	if err != nil && err != codec.ErrTooLarge {
		t.Errorf("delivered %x, which cannot be sent on: %v", payload, err)
	}
}
