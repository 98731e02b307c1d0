package rudp

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// request is a client's request with AppID 1. acceptAt20 is the answer of a server at 20 Hz, refusal its refusal. All
// three are captured.
const (
	request    = "000100000000000000000000ba5b19af"
	acceptAt20 = "000100000000000000000001140023411d20"
	refusal    = "00010000000000000000000254557883"
)

// newServer returns the server's side of a connection with a client that has sent its request.
func newServer(t testing.TB, o Options) *Conn {
	t.Helper()
	conn, reply, err := New(o).Accept(start, address, codectest.Unhex(t, request), nil)
	if err != nil || len(reply) > 0 {
		t.Fatalf("Accept: reply %x, %v", reply, err)
	}
	c := conn.(*Conn)
	if got := codectest.Kinds(codectest.Drain(c)); !slices.Equal(got, []codec.EventKind{codec.Asked}) {
		t.Fatalf("events %v", got)
	}
	return c
}

// keepAlive is a KeepAlive of AppID 1.
func keepAlive(s, acked seq) []byte {
	p := packet{app: 1, seq: s, acks: acks{last: acked}, kind: kindKeepAlive}
	return p.append(nil)
}

func TestSniff(t *testing.T) {
	p := New(Options{AppID: 1})
	if !p.Sniff(codectest.Unhex(t, request)) {
		t.Error("does not take a request")
	}
	for what, q := range map[string]packet{
		"another application": {app: 2},
		"another type":        {app: 1, kind: kindKeepAlive},
		"another number":      {app: 1, seq: 1},
		"data":                {app: 1, data: []byte{1}},
	} {
		d := q.append(nil)
		if p.Sniff(d) {
			t.Errorf("%s: taken", what)
		}
		conn, reply, err := p.Accept(start, address, d, nil)
		if conn != nil || len(reply) > 0 || !errors.Is(err, codec.ErrMalformed) {
			t.Errorf("%s: Accept gives %v, reply %x, %v", what, conn, reply, err)
		}
		if reply := p.Refuse(d, nil, codec.ServerFull); len(reply) > 0 {
			t.Errorf("%s: refused by %x", what, reply)
		}
	}
	if got := p.Refuse(codectest.Unhex(t, request), []byte{9}, codec.ServerFull); hexOf(got) != "09"+refusal {
		t.Errorf("Refuse appends %x", got)
	}
}

// TestServerConnects: a session begins with the client's acknowledgement, since anyone can forge its request.
func TestServerConnects(t *testing.T) {
	c := newServer(t, Options{AppID: 1, Rate: 20})
	c.Admit(start, 1)
	if got := hexOf(one(t, c, start)); got != acceptAt20 {
		t.Fatalf("Accept %s", got)
	}
	if err := c.Receive(start, keepAlive(1, 65535)); !errors.Is(err, codec.ErrUnexpected) || len(codectest.Drain(c)) > 0 {
		t.Errorf("a packet that acknowledges nothing: %v", err)
	}
	if err := c.Receive(start, keepAlive(1, 1)); !errors.Is(err, codec.ErrWindow) || len(codectest.Drain(c)) > 0 {
		t.Errorf("a packet that acknowledges an unsent number: %v", err)
	}
	if err := c.Receive(start, keepAlive(1, 0)); err != nil {
		t.Error(err)
	}
	if got := codectest.Kinds(codectest.Drain(c)); !slices.Equal(got, []codec.EventKind{codec.Connected}) {
		t.Errorf("events %v", got)
	}
	if got := c.Stats(); got.Received != 2 || got.Dropped != 2 || got.Sent != 1 {
		t.Errorf("stats %+v, want the request and the proof received", got)
	}
}

// TestServerUnanswered: a client that does not answer receives 8 Accepts of 18 bytes. A real server sends 35 packets.
func TestServerUnanswered(t *testing.T) {
	for rate, deadline := range map[uint8]time.Duration{100: time.Second, 20: 1700 * ms, 1: 34 * time.Second} {
		c := newServer(t, Options{AppID: 1, Rate: rate})
		if err := c.Send(start, codec.Message{Payload: []byte("early")}); err != nil {
			t.Fatal(err)
		}
		c.Admit(start, 1)
		bytes, now := 0, start
		for c.state != closed {
			for _, d := range codectest.Transmit(c, now) {
				bytes += len(d)
				if p := parse(t, d); p.kind != kindAccept {
					t.Errorf("at %d Hz: sent %+v", rate, p)
				}
			}
			now = c.NextTimeout()
			c.Advance(now)
		}
		if rest := codectest.Transmit(c, now); len(rest) > 0 || bytes != 8*18 || now.Sub(start) != deadline {
			t.Errorf("at %d Hz: %d bytes until %v, then %x", rate, bytes, now.Sub(start), rest)
		}
		if got := codectest.Drain(c); len(got) != 1 || got[0].Reason != codec.TimedOut {
			t.Errorf("at %d Hz: events %v", rate, got)
		}
	}
}

// TestServerUndecided: a server forgets a silent client after 500 ms, and one that repeats its request after 1.5 s.
func TestServerUndecided(t *testing.T) {
	c := newServer(t, Options{AppID: 1})
	if next := c.NextTimeout(); !next.Equal(start.Add(500 * ms)) {
		t.Errorf("NextTimeout of a silent client after %v", next.Sub(start))
	}
	now := start.Add(400 * ms)
	if err := c.Receive(now, codectest.Unhex(t, request)); !errors.Is(err, codec.ErrDuplicate) {
		t.Errorf("repeated request: %v", err)
	}
	if err := c.Receive(now, keepAlive(1, 0)); !errors.Is(err, codec.ErrUnexpected) {
		t.Errorf("KeepAlive of a client that waits: %v", err)
	}
	if d := codectest.Transmit(c, now); len(d) > 0 {
		t.Errorf("answered by %x", d)
	}
	c.Advance(now.Add(1499 * ms))
	if got := codectest.Drain(c); len(got) > 0 {
		t.Errorf("too early: %v", got)
	}
	if next := c.NextTimeout(); !next.Equal(now.Add(1500 * ms)) {
		t.Errorf("NextTimeout after %v", next.Sub(now))
	}
	c.Advance(now.Add(1500 * ms))
	if got := codectest.Drain(c); len(got) != 1 || got[0].Reason != codec.TimedOut {
		t.Errorf("events %v", got)
	}
	c.Admit(now, 1)
	if d := codectest.Transmit(c, now); len(d) > 0 || !c.NextTimeout().IsZero() {
		t.Errorf("admitted after its end: sends %x", d)
	}
}

func TestServerClosesHandshake(t *testing.T) {
	c := newServer(t, Options{AppID: 1})
	c.Close(start, codec.Goodbye{Reason: codec.Banned, Data: []byte("you")})
	if got := hexOf(one(t, c, start)); got != refusal {
		t.Errorf("refusal %s", got)
	}
	c.Advance(start.Add(time.Hour))
	c.Close(start, codec.Goodbye{Reason: codec.Kicked})
	if got := codectest.Drain(c); len(got) != 1 || got[0].Reason != codec.Banned {
		t.Errorf("events %v", got)
	}

	c = newServer(t, Options{AppID: 1})
	c.Admit(start, 1)
	one(t, c, start)
	c.Close(start, codec.Goodbye{Reason: codec.Closed})
	sent := codectest.Transmit(c, start)
	if len(sent) != 2 || parse(t, sent[0]).kind != kindRefuse || parse(t, sent[1]).kind != kindNotify {
		t.Errorf("sent %x", sent)
	}
}

func TestServerLeftInHandshake(t *testing.T) {
	c := newServer(t, Options{AppID: 1})
	p := packet{app: 1, seq: 1, acks: acks{last: 65535}, kind: kindNotify}
	if err := c.Receive(start, p.append(nil)); err != nil {
		t.Error(err)
	}
	if got := codectest.Drain(c); len(got) != 1 || got[0].Reason != codec.Closed {
		t.Errorf("events %v", got)
	}
}

// TestFirstSeq: a seed makes first numbers that differ by client and time, and that clients accept.
func TestFirstSeq(t *testing.T) {
	seeded := Options{Seed: [32]byte{1}}
	other := netip.MustParseAddrPort("192.0.2.1:7778")
	got := []seq{
		(&Options{}).firstSeq(start, address),
		(&Options{Seed: [32]byte{2}}).firstSeq(start, address),
		seeded.firstSeq(start, address),
		seeded.firstSeq(start, other),
		seeded.firstSeq(start.Add(1), address),
	}
	if got[0] != 0 || seeded.firstSeq(start, address) != got[2] {
		t.Errorf("first numbers %v", got)
	}
	slices.Sort(got)
	if len(slices.Compact(got)) != 5 || got[4] > 32767 {
		t.Errorf("first numbers %v, want five different ones below 2^15", got)
	}
}
