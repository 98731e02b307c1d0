package rtype

import (
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
	"tidegate/internal/testkit/allocs"
)

// TestSteadyPathAllocatesNothing: a lively world in each dialect, its mirror, its refreshes and hostile input do not
// allocate.
func TestSteadyPathAllocatesNothing(t *testing.T) {
	for _, dialect := range []Dialect{Document, Game16, Game32} {
		opener := startHex
		if dialect == Document {
			opener = "01"
		}
		o := Options{Dialect: dialect, Components: worldSizes, Refresh: 100 * time.Millisecond}
		s, c := admitted(t, o, opener), dialed(t, o)
		send(t, s, start, announce8, "00 00000001", "02 00000001 0000")
		messages := make([][]byte, 0, len(exampleMessages)+1)
		for _, m := range append([]string{"03 00000001 0000 01020304"}, exampleMessages...) {
			messages = append(messages, codectest.Unhex(t, m))
		}
		hostile := [][]byte{codectest.Unhex(t, "ff01"), codectest.Unhex(t, "03 0001"), codectest.Unhex(t, "f000"), nil}
		now, buffer, received := start, make([]byte, 0, codec.MaxDatagram), 0
		step := func() {
			now = now.Add(20 * time.Millisecond)
			for _, m := range messages {
				if err := s.Send(now, codec.Message{Payload: m, Receipt: 1}); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Send(now, codec.Message{Payload: messages[0]}); err != nil && dialect != Document {
				t.Fatal(err)
			}
			received += carry(s, c, now, buffer) + carry(c, s, now, buffer)
			for _, d := range hostile {
				_, _ = s.Receive(now, d), c.Receive(now, d)
			}
			s.Advance(now)
			c.Advance(now)
			for _, ok := s.Poll(); ok; _, ok = s.Poll() {
			}
		}
		for range 200 {
			step()
		}
		received = 0
		if n := allocs.PerRun(500, step); n != 0 {
			t.Errorf("%s: %v allocations each step", names[dialect], n)
		}
		if want := 500 * len(messages); received < want {
			t.Errorf("%s: %d messages received, want at least %d", names[dialect], received, want)
		}
	}
}

// carry transfers all datagrams from one Conn to another, and returns how many messages arrived.
func carry(from, to codec.Conn, now time.Time, buffer []byte) (received int) {
	for {
		d, ok := from.Transmit(now, buffer)
		if !ok {
			return received
		}
		_ = to.Receive(now, d) // a dropped datagram is not counted as received
		for e, ok := to.Poll(); ok; e, ok = to.Poll() {
			if e.Kind == codec.Received {
				received++
			}
		}
	}
}
