package riptide

import (
	"errors"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// newClient makes a client's side that has sent its first Connect.
func newClient(t *testing.T, o Options) *Conn {
	t.Helper()
	c := New(o).Dial(start, address, codec.Hello{}).(*Conn)
	wantSent(t, c, start, "02")
	return c
}

// until advances c step by step until it has no more timeouts before end, and counts the datagrams that it sends.
func until(c *Conn, end time.Time) (now time.Time, sent map[kind]int) {
	sent = map[kind]int{}
	for next := c.NextTimeout(); !next.IsZero() && !next.After(end); next = c.NextTimeout() {
		now = next
		c.Advance(now)
		for _, d := range codectest.Transmit(c, now) {
			sent[c.dialect.kindOf(d)]++
		}
	}
	return now, sent
}

func TestClientGivesUp(t *testing.T) {
	c := newClient(t, Options{})
	now, sent := until(c, start.Add(time.Minute))
	if now.Sub(start) != 5*time.Second || sent[kindConnect] != 4 {
		t.Errorf("over after %v and %d more attempts, want 5 s and 4", now.Sub(start), sent[kindConnect])
	}
	if e := wantKinds(t, c, codec.Disconnected); e[0].Reason != codec.NoConnection {
		t.Errorf("for %v", e[0].Reason)
	}
}

// TestClientAsksOnceOverAStream: a stream loses nothing, so the client asks once. It waits as long as one that
// repeats.
func TestClientAsksOnceOverAStream(t *testing.T) {
	c := newClient(t, Options{Stream: true})
	now, sent := until(c, start.Add(time.Minute))
	if now.Sub(start) != 5*time.Second || len(sent) != 0 {
		t.Errorf("over after %v, sent %v more; want 5 s and nothing", now.Sub(start), sent)
	}
	if e := wantKinds(t, c, codec.Disconnected); e[0].Reason != codec.NoConnection {
		t.Errorf("for %v", e[0].Reason)
	}
}

func TestClientPending(t *testing.T) {
	c := newClient(t, Options{})
	if err := c.Receive(start.Add(time.Second/2), codectest.Unhex(t, "02")); err != nil {
		t.Fatal(err)
	}
	if err := c.Receive(start.Add(time.Second), codectest.Unhex(t, "02")); !errors.Is(err, codec.ErrUnexpected) {
		t.Errorf("pending twice: %v", err)
	}
	now, sent := until(c, start.Add(time.Minute))
	if now.Sub(start) != 10*time.Second+time.Second/2 || len(sent) != 0 {
		t.Errorf("over after %v, sent %v; want 10.5 s and nothing", now.Sub(start), sent)
	}
	if e := wantKinds(t, c, codec.Disconnected); e[0].Reason != codec.TimedOut {
		t.Errorf("for %v", e[0].Reason)
	}
}

func TestClientWelcomed(t *testing.T) {
	c := newClient(t, Options{})
	if err := c.Send(start, codec.Message{Mode: codec.Reliable, Payload: []byte{0x5a}, ID: 1, HasID: true}); err != nil {
		t.Fatal(err)
	}
	wantSent(t, c, start)
	for _, early := range []string{"10a005", "27001000", "2900200000", "180010", "0400"} {
		if err := c.Receive(start, codectest.Unhex(t, early)); !errors.Is(err, codec.ErrUnexpected) {
			t.Errorf("%s before Welcome: %v, want ErrUnexpected", early, err)
		}
	}
	if err := c.Receive(start, codectest.Unhex(t, "1800200000")); err != nil {
		t.Fatal(err)
	}
	if e := wantKinds(t, c, codec.Connected); e[0].Client != 2 {
		t.Errorf("is client %d, want 2", e[0].Client)
	}
	wantSent(t, c, start, "1100100000", "1800200000", "270010a005")
	if err := c.Receive(start, codectest.Unhex(t, "1800200000")); !errors.Is(err, codec.ErrDuplicate) {
		t.Errorf("Welcome again: %v, want ErrDuplicate", err)
	}
	wantSent(t, c, start, "1100100000")
	if err := c.Receive(start, codectest.Unhex(t, "2800300000")); !errors.Is(err, codec.ErrUnexpected) {
		t.Errorf("another Welcome: %v, want ErrUnexpected", err)
	}
	wantSent(t, c, start, "2100300000")
	if err := c.Receive(start, codectest.Unhex(t, "3300")); !errors.Is(err, codec.ErrUnexpected) {
		t.Errorf("Reject of a connected client: %v, want ErrUnexpected", err)
	}
}

// tentative makes an unconfirmed client that the server has accepted and that has a message to send.
func tentative(t *testing.T) *Conn {
	c := New(Options{}).Dial(start, address, codec.Hello{Tentative: true}).(*Conn)
	if err := c.Send(start, codec.Message{Mode: codec.Reliable, Payload: []byte{0x5a}, ID: 1, HasID: true}); err != nil {
		t.Fatal(err)
	}
	wantSent(t, c, start, "02")
	for range 2 {
		_ = c.Receive(start, codectest.Unhex(t, "1800200000"))
		wantSent(t, c, start, "1100100000") // and no Welcome
	}
	if e := wantKinds(t, c, codec.Connected); e[0].Client != 2 {
		t.Errorf("is client %d, want 2", e[0].Client)
	}
	return c
}

// TestClientTentative: a tentative client acknowledges the server's Welcome and later messages. It sends nothing else
// before Confirm.
func TestClientTentative(t *testing.T) {
	c := tentative(t)
	for _, d := range []string{"2900300000", "370010a005", "10a005"} {
		if err := c.Receive(start, codectest.Unhex(t, d)); err != nil {
			t.Errorf("%s: %v", d, err)
		}
	}
	wantKinds(t, c, codec.Joined, codec.Received, codec.Received)
	wantSent(t, c, start, "2100300000", "3100700000")
	now, sent := until(c, start.Add(4*time.Second))
	if len(sent) != 0 {
		t.Errorf("sent %v before Confirm", sent)
	}
	c.Confirm(now)
	wantSent(t, c, now, "1800200000", "270010a005")
	a := ack{last: 2, bits: 0b1}
	if err := c.Receive(now, a.append(v22, nil)); err != nil {
		t.Fatal(err)
	}
	if _, sent := until(c, now.Add(time.Second)); sent[kindHeartbeat] == 0 {
		t.Errorf("sent %v after Confirm, want heartbeats too", sent)
	}
}

func TestClientLeavesUnconfirmed(t *testing.T) {
	c := tentative(t)
	c.Close(start, codec.Goodbye{Reason: codec.Closed})
	c.Confirm(start)
	wantKinds(t, c, codec.Disconnected)
	wantSent(t, c, start, "05")

	c = tentative(t)
	now, sent := until(c, start.Add(time.Minute))
	if now.Sub(start) < 5*time.Second || len(sent) != 1 || sent[kindDisconnect] != 1 {
		t.Errorf("over after %v, sent %v; want the time-out and a goodbye", now.Sub(start), sent)
	}
	if e := wantKinds(t, c, codec.Disconnected); e[0].Reason != codec.TimedOut {
		t.Errorf("for %v", e[0].Reason)
	}
}

func TestClientRejected(t *testing.T) {
	for _, c := range []struct {
		hex  string
		want codec.Reason
		data string
	}{
		{"0300", codec.NoConnection, ""},
		{"1300", codec.AlreadyConnected, ""},
		{"2300", codec.ServerFull, ""},
		{"3300", codec.Rejected, ""},
		{"431066b606", codec.RejectedCustom, "afk"},
		{"9300", codec.Rejected, ""},
	} {
		client := newClient(t, Options{})
		if err := client.Receive(start, codectest.Unhex(t, c.hex)); err != nil {
			t.Errorf("%s: %v", c.hex, err)
		}
		e := wantKinds(t, client, codec.Disconnected)
		if e[0].Reason != c.want || string(e[0].Payload) != c.data {
			t.Errorf("%s: %v with %q, want %v with %q", c.hex, e[0].Reason, e[0].Payload, c.want, c.data)
		}
		if err := client.Receive(start, codectest.Unhex(t, c.hex)); !errors.Is(err, codec.ErrUnexpected) {
			t.Errorf("%s again: %v, want ErrUnexpected", c.hex, err)
		}
	}
}

func TestClientDisconnected(t *testing.T) {
	for _, c := range []struct {
		hex  string
		want codec.Reason
	}{
		{"0500", codec.NoConnection},
		{"1500", codec.Rejected},
		{"2500", codec.TransportError},
		{"3500", codec.TimedOut},
		{"4500", codec.Kicked},
		{"5500", codec.ServerStopped},
		{"6500", codec.Closed},
		{"7500", codec.PoorConnection},
		{"f50f", codec.Closed},
		{"0505", codec.ServerStopped}, // of 2.1.0
	} {
		p := newPair(t, Options{})
		if err := p.client.Receive(p.now, codectest.Unhex(t, "2900200000")); err != nil {
			t.Fatal(err)
		}
		if err := p.client.Send(p.now, codec.Message{Mode: codec.Unreliable}); err != nil {
			t.Fatal(err)
		}
		if err := p.client.Receive(p.now, codectest.Unhex(t, c.hex)); err != nil {
			t.Errorf("%s: %v", c.hex, err)
		}
		silence(p.client, p.now.Add(time.Second))
		if e := wantKinds(t, p.client, codec.Joined, codec.Disconnected); e[1].Reason != c.want {
			t.Errorf("%s: %v, want %v", c.hex, e[1].Reason, c.want)
		}
		wantSent(t, p.client, p.now) // the server has gone
	}
	p := newPair(t, Options{})
	if err := p.client.Receive(p.now, []byte{0x05}); !errors.Is(err, codec.ErrMalformed) {
		t.Errorf("without reason: %v, want ErrMalformed", err)
	}
	wantKinds(t, p.client)
}

func TestClientLeaves(t *testing.T) {
	p := newPair(t, Options{})
	p.client.Close(p.now, codec.Goodbye{Reason: codec.Closed, Data: []byte("unsaid")})
	wantSent(t, p.client, p.now, "05")
	wantKinds(t, p.client, codec.Disconnected)
	if err := p.server.Receive(p.now, []byte{0x05}); err != nil {
		t.Fatal(err)
	}
	silence(p.server, p.now.Add(3*time.Second))
	if e := wantKinds(t, p.server, codec.Disconnected); e[0].Reason != codec.Closed {
		t.Errorf("left for %v", e[0].Reason)
	}
	if err := p.client.Send(p.now, codec.Message{}); !errors.Is(err, codec.ErrClosed) {
		t.Errorf("Send after Close: %v", err)
	}
}

// TestClientLeavesEarly: a client that leaves before its Welcome tells the server too.
func TestClientLeavesEarly(t *testing.T) {
	c := newClient(t, Options{})
	c.Close(start, codec.Goodbye{Reason: codec.Closed})
	wantSent(t, c, start, "05")
	wantKinds(t, c, codec.Disconnected)
}

func TestClientHeartbeats(t *testing.T) {
	p := newPair(t, Options{})
	p.client.rtt = rtt{}
	for i, want := range []string{"04f0ff0f", "14200300", "24200300"} {
		p.now = p.client.NextTimeout()
		if i == 0 && p.now.Sub(start) != time.Second {
			t.Errorf("first heartbeat after %v, want 1 s", p.now.Sub(start))
		}
		p.client.Advance(p.now)
		wantSent(t, p.client, p.now, want)
		pong := appendHeartbeatAnswer(v22, nil, uint8(i))
		for _, after := range []time.Duration{30, 60} { // the second answer does not count
			_ = p.client.Receive(p.now.Add(after*time.Millisecond), pong)
		}
	}
	if got := p.client.Stats().RTT; got != 30*time.Millisecond {
		t.Errorf("RTT %v, want 30 ms", got)
	}
}

func TestClientTimesOut(t *testing.T) {
	p := newPair(t, Options{})
	now, sent := until(p.client, start.Add(time.Minute))
	if now.Sub(start) != 5500*time.Millisecond || sent[kindHeartbeat] != 5 {
		t.Errorf("over after %v and %d heartbeats, want 5.5 s and 5", now.Sub(start), sent[kindHeartbeat])
	}
	if e := wantKinds(t, p.client, codec.Disconnected); e[0].Reason != codec.TimedOut {
		t.Errorf("for %v", e[0].Reason)
	}
}

// TestClientWelcomeUnacknowledged: a server that does not acknowledge our Welcome loses us.
func TestClientWelcomeUnacknowledged(t *testing.T) {
	c := newClient(t, Options{})
	_ = c.Receive(start, codectest.Unhex(t, "1800100000"))
	codectest.Transmit(c, start)
	now, sent := until(c, start.Add(time.Minute))
	if now.Sub(start) != 15*firstResend || sent[kindWelcome] != maxSends-1 {
		t.Errorf("over after %v and %d resends, want 750 ms and 14", now.Sub(start), sent[kindWelcome])
	}
	if e := wantKinds(t, c, codec.Connected, codec.Disconnected); e[1].Reason != codec.PoorConnection {
		t.Errorf("for %v", e[1].Reason)
	}
}

func TestDialWithTooMuch(t *testing.T) {
	c := New(Options{}).Dial(start, address, codec.Hello{Data: make([]byte, maxMessage)})
	if e := wantKinds(t, c, codec.Disconnected); e[0].Reason != codec.NoConnection {
		t.Errorf("for %v", e[0].Reason)
	}
	wantSent(t, c, start)
}
