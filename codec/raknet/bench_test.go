package raknet

import (
	"testing"

	"tidegate/codec"
	"tidegate/internal/testkit/allocs"
)

// steady is a connected link with a message and a buffer, for measurements of the steady path.
type steady struct {
	*link
	message codec.Message
	buffer  []byte
	got     int
}

func newSteady(t testing.TB, mode codec.Mode, size int) *steady {
	s := &steady{link: newConnected(t, Options{}), message: codec.Message{Payload: gamePayload(size), Mode: mode}}
	s.buffer = make([]byte, 0, codec.MaxDatagram)
	return s
}

// step sends some messages to the server at once and transfers all datagrams, including acknowledgements.
func (s *steady) step(messages int) {
	s.now = s.now.Add(10 * ms)
	for range messages {
		s.message.Receipt++
		if err := s.client.Send(s.now, s.message); err != nil {
			s.t.Fatal(err)
		}
	}
	s.client.Advance(s.now)
	s.server.Advance(s.now)
	for s.shuttle(s.client, s.server) || s.shuttle(s.server, s.client) {
	}
}

func (s *steady) shuttle(from, to *Conn) bool {
	datagram, ok := from.Transmit(s.now, s.buffer)
	if !ok {
		return false
	}
	_ = to.Receive(s.now, datagram)
	for _, c := range []*Conn{from, to} {
		for e, ok := c.Poll(); ok; e, ok = c.Poll() {
			if e.Kind == codec.Received {
				s.got++
			}
		}
	}
	return true
}

func TestSteadyPathDoesNotAllocate(t *testing.T) {
	for _, mode := range modes[:5] {
		for _, size := range []int{60, 5000} {
			s := newSteady(t, mode, size)
			for range 300 {
				s.step(3)
			}
			// A split message takes one table of its parts; all other memory is reused.
			want := 0.0
			if size > s.client.sender.partSize() {
				want = 2 * 3
			}
			if got := allocs.PerRun(300, func() { s.step(3) }); got > want {
				t.Errorf("%v of %d bytes: %v allocations for three messages, want %v", mode, size, got, want)
			}
			if s.got < 3*600 {
				t.Errorf("%v of %d bytes: %d messages arrived", mode, size, s.got)
			}
		}
	}
}

// BenchmarkMessage measures a message from Send to Received, for both sides together, with its share of
// acknowledgements and receipts.
func BenchmarkMessage(b *testing.B) {
	for _, bench := range []struct {
		name   string
		mode   codec.Mode
		size   int
		atOnce int
	}{
		{"unreliable/64B", codec.Unreliable, 64, 1},
		{"reliable-ordered/64B", codec.ReliableOrdered, 64, 1},
		{"reliable-ordered/64B/16-at-once", codec.ReliableOrdered, 64, 16},
		{"reliable-ordered/1400B", codec.ReliableOrdered, 1400, 1},
		{"reliable-ordered/20kB", codec.ReliableOrdered, 20_000, 1},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := newSteady(b, bench.mode, bench.size)
			s.step(bench.atOnce)
			b.ReportAllocs()
			b.SetBytes(int64(bench.size))
			for n := 0; b.Loop(); n++ {
				if n%bench.atOnce == 0 {
					s.step(bench.atOnce)
				}
			}
		})
	}
}

// BenchmarkHandshake measures a whole handshake with cookies, for both sides together.
func BenchmarkHandshake(b *testing.B) {
	p := New(Options{})
	b.ReportAllocs()
	for b.Loop() {
		l := newLinkOf(b, p)
		l.exchange()
		l.server.Admit(l.now, 1)
		l.exchange()
	}
}
