package rudp

import (
	"strconv"
	"testing"

	"tidegate/codec"
	"tidegate/internal/testkit/allocs"
)

// steady is a pair with a message and a buffer, for measurements of the steady path.
type steady struct {
	*pair
	message codec.Message
	buffer  []byte
	got     int
}

func newSteady(t testing.TB) *steady {
	s := &steady{pair: newPair(t, Options{}), buffer: make([]byte, 0, codec.MaxDatagram)}
	s.message = codec.Message{Mode: codec.Notify, Payload: make([]byte, 100)}
	return s
}

// step advances by one period in which the client sends messages. The client sends a Data packet, and the server
// acknowledges it with a KeepAlive.
func (s *steady) step(messages int) {
	s.now = s.now.Add(s.client.period)
	for range messages {
		s.message.Receipt++
		if err := s.client.Send(s.now, s.message); err != nil {
			s.t.Fatal(err)
		}
	}
	s.client.Advance(s.now)
	s.server.Advance(s.now)
	s.carry(s.client, s.server)
	s.carry(s.server, s.client)
}

func (s *steady) carry(from, to *Conn) {
	for d, ok := from.Transmit(s.now, s.buffer); ok; d, ok = from.Transmit(s.now, s.buffer) {
		if err := to.Receive(s.now, d); err != nil {
			s.t.Fatal(err)
		}
		for e, ok := to.Poll(); ok; e, ok = to.Poll() {
			if e.Kind == codec.Received {
				s.got++
			}
		}
	}
}

func TestAllocs(t *testing.T) {
	s := newSteady(t)
	for range 100 {
		s.step(10)
	}
	if n := allocs.PerRun(1000, func() { s.step(10) }); n > 0 || s.got < 1000 {
		t.Errorf("%v allocations a period; %d packets arrived", n, s.got)
	}
}

// BenchmarkPeriod transfers the packets of one period, with one message and with ten.
func BenchmarkPeriod(b *testing.B) {
	for _, messages := range []int{1, 10} {
		b.Run(strconv.Itoa(messages), func(b *testing.B) {
			s := newSteady(b)
			b.ReportAllocs()
			for b.Loop() {
				s.step(messages)
			}
		})
	}
}
