package rtype

import (
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

const (
	pingHex = "70696e67"
	pongHex = "706f6e67"
)

// step is the output of a side when it is next due.
type step struct {
	after time.Duration // after start
	sent  []string
}

// walk advances c from timeout to timeout.
func walk(t *testing.T, c codec.Conn, steps []step) {
	t.Helper()
	for _, s := range steps {
		now := start.Add(s.after)
		if got := c.NextTimeout(); !got.Equal(now) {
			t.Fatalf("next timeout after %v, want %v", got.Sub(start), s.after)
		}
		c.Advance(now.Add(-time.Nanosecond))
		wantSent(t, c, now)
		c.Advance(now)
		wantSent(t, c, now, s.sent...)
	}
}

// TestPings: a silent client is pinged, several times because pings may be lost, and then given up.
func TestPings(t *testing.T) {
	s := admitted(t, Options{Dialect: Game32, PingInterval: 10 * time.Second, PongTimeout: 4 * time.Second}, startHex)
	walk(t, s, []step{{10 * time.Second, []string{pingHex}}, {11 * time.Second, []string{pingHex}}})
	receive(t, s, start.Add(11*time.Second), pongHex)
	walk(t, s, []step{
		{20 * time.Second, []string{pingHex}}, {21 * time.Second, []string{pingHex}},
		{22 * time.Second, []string{pingHex}}, {23 * time.Second, []string{pingHex}},
		{24 * time.Second, []string{goodbyeHex}},
	})
	wantEnd(t, s, codec.TimedOut)
	if next := s.NextTimeout(); !next.IsZero() {
		t.Errorf("next timeout %v after the end", next)
	}
}

// TestSignsOfLife: any message is a sign of life, a meaningless datagram is not. Only the answer to a ping that was
// sent once measures the round trip.
func TestSignsOfLife(t *testing.T) {
	for _, c := range []struct {
		what, datagram string
		heard          bool
		rtt            time.Duration
	}{
		{"pong", pongHex, true, 40 * time.Millisecond},
		{"hello", startHex, true, 0},
		{"nonsense", "ff", false, 0},
	} {
		s := admitted(t, Options{Dialect: Game32, PingInterval: 10 * time.Second}, startHex)
		now := start.Add(10 * time.Second)
		s.Advance(now)
		now = now.Add(40 * time.Millisecond)
		_ = s.Receive(now, codectest.Unhex(t, c.datagram))
		if got := s.pinger.owedSince.IsZero(); got != c.heard || s.Stats().RTT != c.rtt {
			t.Errorf("%s: sign of life %v, RTT %v", c.what, got, s.Stats().RTT)
		}
	}
	s := admitted(t, Options{Dialect: Game32, PingInterval: 10 * time.Second}, startHex)
	walk(t, s, []step{{10 * time.Second, []string{pingHex}}, {12500 * time.Millisecond, []string{pingHex}}})
	receive(t, s, start.Add(12600*time.Millisecond), pongHex)
	if got := s.Stats().RTT; got != 0 {
		t.Errorf("RTT %v of two pings", got)
	}
}

// TestIdleClients: a client is pinged only if that is configured. It may be silent for IdleTimeout, and receives the
// end.
func TestIdleClients(t *testing.T) {
	for _, c := range []struct {
		s    *server
		word string
		want []string
	}{
		{admitted(t, Options{Dialect: Document}, "01"), "00", nil},
		{admitted(t, Options{Dialect: Game16}, startHex), "00", []string{goodbyeHex}},
		{admitted(t, Options{Dialect: Game32}, startHex), "03 00000001 0000", []string{goodbyeHex}},
	} {
		receive(t, c.s, start.Add(5*time.Second), c.word)
		walk(t, c.s, []step{{5*time.Second + defaultIdleTimeout, c.want}})
		wantEnd(t, c.s, codec.TimedOut)
	}
}

// TestUndecided: the server waits for a client that is not admitted as long as it repeats its Hello.
func TestUndecided(t *testing.T) {
	conn, _, err := New(Options{}).Accept(start, address, []byte("start"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Receive(start.Add(5*time.Second), []byte("start")); err != codec.ErrDuplicate {
		t.Errorf("repeated Hello: %v", err)
	}
	if err := conn.Receive(start.Add(6*time.Second), []byte{0}); err != codec.ErrUnexpected {
		t.Errorf("message before Admit: %v", err)
	}
	walk(t, conn, []step{{15 * time.Second, []string{goodbyeHex}}})
	wantEnd(t, conn, codec.TimedOut)
}

func TestHellos(t *testing.T) {
	c := New(Options{MaxHellos: 4}).Dial(start, address, codec.Hello{}) // the server may be of the last game too
	wantSent(t, c, start, startHex)
	walk(t, c, []step{
		{time.Second, []string{startHex}}, {2 * time.Second, []string{"00"}}, {3 * time.Second, []string{startHex}},
		{4 * time.Second, nil},
	})
	wantEnd(t, c, codec.NoConnection)
	c = New(Options{Dialect: Document}).Dial(start, address, codec.Hello{})
	wantSent(t, c, start, "01")
	c = New(Options{Hello: []byte("join")}).Dial(start, address, codec.Hello{})
	wantSent(t, c, start, "6a6f696e")
}

// TestHellosForMissingParts: a client repeats Hello while a part of the initialisation is missing, within its bound.
func TestHellosForMissingParts(t *testing.T) {
	c := dialed(t, Options{MaxHellos: 3})
	receive(t, c, start, "0002", "08", "00 41")
	codectest.Drain(c)
	walk(t, c, []step{{time.Second, []string{startHex}}})
	receive(t, c, start.Add(time.Second), "01 42")
	codectest.Drain(c)
	walk(t, c, []step{{time.Second + defaultServerTimeout, nil}})
	c = dialed(t, Options{MaxHellos: 2})
	receive(t, c, start, "0002")
	codectest.Drain(c)
	walk(t, c, []step{
		{time.Second, []string{startHex}}, {2 * time.Second, nil}, {defaultServerTimeout, nil},
	})
	wantEnd(t, c, codec.TimedOut)
}

// TestLateEnd: messages that wait for a client are not sent after it is given up.
func TestLateEnd(t *testing.T) {
	s := admitted(t, Options{Dialect: Game32}, startHex)
	send(t, s, start, "00 00000001")
	s.Advance(start.Add(time.Hour))
	wantSent(t, s, start, goodbyeHex)
	wantEnd(t, s, codec.TimedOut)
	s = admitted(t, Options{Dialect: Game32, PingInterval: time.Second}, startHex)
	s.Advance(start.Add(time.Second))
	s.Close(start, codec.Goodbye{Reason: codec.Kicked})
	wantSent(t, s, start, goodbyeHex) // no ping
}

func TestGoodbyes(t *testing.T) {
	why := codec.Goodbye{Reason: codec.ServerStopped}
	s := admitted(t, Options{Dialect: Game32}, startHex)
	send(t, s, start, "00 00000001")
	s.Close(start, why)
	s.Close(start, codec.Goodbye{Reason: codec.Kicked})
	wantSent(t, s, start, "00 00000001", goodbyeHex)
	wantEnd(t, s, codec.ServerStopped)
	conn, _, _ := New(Options{}).Accept(start, address, []byte("start"), nil)
	send(t, conn, start, "00 00000001")
	conn.Close(start, why)
	wantSent(t, conn, start, goodbyeHex)
	s = admitted(t, Options{Dialect: Document}, "01")
	s.Close(start, why)
	wantSent(t, s, start)
	for _, text := range []string{goodbyeHex, goodbyeHex + "00"} {
		c := dialed(t, Options{})
		receive(t, c, start, text)
		wantEnd(t, c, codec.Rejected)
		c = dialed(t, Options{})
		receive(t, c, start, pingHex, text)
		wantSent(t, c, start)
		wantEnd(t, c, codec.Kicked)
	}
	c := dialed(t, Options{})
	receive(t, c, start, pingHex)
	send(t, c, start, "00")
	c.Close(start, codec.Goodbye{Reason: codec.Closed})
	wantSent(t, c, start, "00")
	wantEnd(t, c, codec.Closed)
}
