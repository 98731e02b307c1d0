package riptide

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// newServer makes the server's side of a client with the given Connect datagram.
func newServer(t *testing.T, o Options, connect string) *Conn {
	t.Helper()
	conn, reply, err := New(o).Accept(start, address, codectest.Unhex(t, connect), nil)
	if err != nil || len(reply) != 0 {
		t.Fatalf("Accept: reply %x, error %v", reply, err)
	}
	return conn.(*Conn)
}

// wantSent checks the datagrams that c transmits, in hexadecimal.
func wantSent(t *testing.T, c codec.Conn, now time.Time, want ...string) {
	t.Helper()
	var got []string
	for _, d := range codectest.Transmit(c, now) {
		got = append(got, hexOf(d))
	}
	if !slices.Equal(got, want) {
		t.Errorf("transmitted %v, want %v", got, want)
	}
}

// wantKinds checks the kinds of the events that c reports.
func wantKinds(t *testing.T, c codec.Conn, want ...codec.EventKind) []codec.Event {
	t.Helper()
	events := codectest.Drain(c)
	var got []codec.EventKind
	for _, e := range events {
		got = append(got, e.Kind)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("events %v, want %v", got, want)
	}
	return events
}

func TestAcceptAndSniff(t *testing.T) {
	p := New(Options{})
	for _, c := range []struct {
		what     string
		datagram []byte
		want     bool
	}{
		{"empty", nil, false},
		{"bare Connect", []byte{0x02}, true},
		{"Connect with data", []byte{0x82, 0x07}, true},
		{"Connect of Riptide 2.0", []byte{0x03}, false},
		{"the largest", append([]byte{0x02}, make([]byte, 1230)...), true},
		{"larger", append([]byte{0x02}, make([]byte, 1231)...), false},
	} {
		if got := p.Sniff(c.datagram); got != c.want {
			t.Errorf("%s: Sniff %v, want %v", c.what, got, c.want)
		}
		conn, _, err := p.Accept(start, address, c.datagram, nil)
		if (conn != nil) != c.want || errors.Is(err, codec.ErrMalformed) == c.want {
			t.Errorf("%s: Accept %v, error %v", c.what, conn, err)
		}
	}
}

func TestRefuse(t *testing.T) {
	p := New(Options{})
	if got := p.Refuse([]byte{0x02}, []byte("x"), codec.ServerFull); hexOf(got) != "782300" {
		t.Errorf("refused by %x", got)
	}
	if got := p.Refuse([]byte{0x05}, nil, codec.ServerFull); len(got) != 0 {
		t.Errorf("a datagram other than Connect was refused by %x", got)
	}
}

func TestServerAdmits(t *testing.T) {
	c := newServer(t, Options{}, "829606")
	if e := wantKinds(t, c, codec.Asked); string(e[0].Payload) != "hi" {
		t.Errorf("asked with %q", e[0].Payload)
	}
	wantSent(t, c, start, "02")
	c.Admit(start, 1)
	wantSent(t, c, start, "1800100000")
	if err := c.Receive(start, codectest.Unhex(t, "1800100000")); err != nil {
		t.Errorf("Welcome: %v", err)
	}
	wantKinds(t, c, codec.Connected)
	wantSent(t, c, start, "1100100000")
	c.Admit(start, 2)
	wantSent(t, c, start)
}

// TestServerNotFooled: before the client's Welcome only Connect, Ack and Welcome pass. Real servers accept more.
func TestServerNotFooled(t *testing.T) {
	for _, admitted := range []bool{false, true} {
		c := newServer(t, Options{}, "02")
		if admitted {
			c.Admit(start, 5)
		}
		codectest.Drain(c)
		codectest.Transmit(c, start)
		for _, h := range []string{"10a005", "27001000", "060000100000000000a0f7", "04f0ff0f", "05", "4500", "2300",
			"1800600000", "2900500000", "1b00500000", "18001000"} {
			if err := c.Receive(start, codectest.Unhex(t, h)); !errors.Is(err, codec.ErrUnexpected) {
				t.Errorf("admitted %v: %s: error %v, want ErrUnexpected", admitted, h, err)
			}
		}
		if err := c.Receive(start, codectest.Unhex(t, "02")); !errors.Is(err, codec.ErrDuplicate) {
			t.Errorf("admitted %v: Connect again: %v, want ErrDuplicate", admitted, err)
		}
		if err := c.Receive(start, codectest.Unhex(t, "1800500000")); (err == nil) != admitted {
			t.Errorf("admitted %v: Welcome with the right ID: %v", admitted, err)
		}
		if !admitted {
			wantKinds(t, c)
			wantSent(t, c, start)
		}
	}
}

func TestServerRejects(t *testing.T) {
	for _, c := range []struct {
		why  codec.Goodbye
		want string
		bye  string // follows if the client has its Welcome, since it may count as connected
	}{
		{codec.Goodbye{Reason: codec.NoConnection}, "0300", "4500"},
		{codec.Goodbye{Reason: codec.AlreadyConnected}, "1300", "4500"},
		{codec.Goodbye{Reason: codec.ServerFull}, "2300", "4500"},
		{codec.Goodbye{Reason: codec.Rejected}, "3300", "4500"},
		{codec.Goodbye{Reason: codec.RejectedCustom}, "4300", "4500"},
		{codec.Goodbye{Reason: codec.Rejected, Data: []byte("afk")}, "431066b606", "451066b606"},
		{codec.Goodbye{Reason: codec.RejectedCustom, Data: []byte("afk")}, "431066b606", "451066b606"},
		{codec.Goodbye{Reason: codec.RejectedCustom, Data: make([]byte, 2000)}, "4300", "4500"},
		{codec.Goodbye{Reason: codec.Banned}, "3300", "4500"},
		{codec.Goodbye{Reason: codec.TimedOut}, "3300", "3500"},
	} {
		for _, admitted := range []bool{false, true} {
			s := newServer(t, Options{}, "02")
			if admitted {
				s.Admit(start, 1)
			}
			if err := s.Send(start, codec.Message{Mode: codec.Unreliable}); err != nil {
				t.Fatal(err)
			}
			codectest.Drain(s)
			codectest.Transmit(s, start)
			s.Close(start, c.why)
			want := []string{c.want, c.want, c.want}
			if admitted {
				want = append(want, c.bye)
			}
			wantSent(t, s, start, want...)
			if e := wantKinds(t, s, codec.Disconnected); e[0].Reason != c.why.Reason {
				t.Errorf("disconnected for %v, want %v", e[0].Reason, c.why.Reason)
			}
		}
	}
}

func TestServerDisconnects(t *testing.T) {
	for _, c := range []struct {
		why   codec.Goodbye
		want  string
		heard codec.Reason
	}{
		{codec.Goodbye{Reason: codec.Kicked}, "4500", codec.Kicked},
		{codec.Goodbye{Reason: codec.Kicked, Data: []byte("afk")}, "451066b606", codec.Kicked},
		{codec.Goodbye{Reason: codec.Kicked, Data: []byte{0x0f}, Pad: 4}, "45f0", codec.Kicked},
		{codec.Goodbye{Reason: codec.ServerStopped, Data: []byte("x")}, "5500", codec.ServerStopped},
		{codec.Goodbye{Reason: codec.TransportError}, "2500", codec.TransportError},
		{codec.Goodbye{Reason: codec.TimedOut}, "3500", codec.TimedOut},
		{codec.Goodbye{Reason: codec.Closed}, "6500", codec.Closed},
		{codec.Goodbye{Reason: codec.PoorConnection}, "7500", codec.PoorConnection},
		{codec.Goodbye{Reason: codec.NoConnection}, "4500", codec.Kicked},
		{codec.Goodbye{Reason: codec.Rejected}, "4500", codec.Kicked},
		{codec.Goodbye{Reason: codec.Overflow}, "4500", codec.Kicked},
	} {
		p := newPair(t, Options{})
		p.server.Close(p.now, c.why)
		p.server.Close(p.now, codec.Goodbye{Reason: codec.Banned})
		sent := codectest.Transmit(p.server, p.now)
		if len(sent) != 1 || hexOf(sent[0]) != c.want {
			t.Errorf("%v: sent %x, want %s", c.why, sent, c.want)
			continue
		}
		wantKinds(t, p.server, codec.Disconnected)
		if err := p.client.Receive(p.now, sent[0]); err != nil {
			t.Errorf("%v: %v", c.why, err)
		}
		silence(p.client, p.now.Add(time.Second))
		e := wantKinds(t, p.client, codec.Disconnected)
		data := c.why.Data
		if c.why.Reason != codec.Kicked {
			data = nil
		}
		if e[0].Reason != c.heard || !bytes.Equal(e[0].Payload, data) || e[0].Pad != c.why.Pad {
			t.Errorf("%v: heard %v %x pad %d", c.why, e[0].Reason, e[0].Payload, e[0].Pad)
		}
	}
}

// TestCloseComesLast: messages sent before the goodbye precede it on the wire, reliable ones too.
func TestCloseComesLast(t *testing.T) {
	p := newPair(t, Options{})
	m := codec.Message{Payload: []byte{0x5a}, ID: 1, HasID: true}
	for _, m.Mode = range []codec.Mode{codec.Unreliable, codec.Reliable} {
		m.Receipt++
		if err := p.server.Send(p.now, m); err != nil {
			t.Fatal(err)
		}
	}
	p.server.Close(p.now, codec.Goodbye{Reason: codec.Kicked})
	wantKinds(t, p.server, codec.Lost, codec.Lost, codec.Disconnected)
	wantSent(t, p.server, p.now, "10a005", "270010a005", "4500")
}

func TestServerTimesOut(t *testing.T) {
	for _, c := range []struct {
		what    string
		make    func() *Conn
		want    time.Duration
		resends int
	}{
		{"no answer", func() *Conn { return newServer(t, Options{}, "02") }, 10 * time.Second, 0},
		{"no Welcome", func() *Conn {
			s := newServer(t, Options{}, "02")
			s.Admit(start, 1)
			return s
		}, 5 * time.Second, maxSends - 1},
		{"silence", func() *Conn { return newPair(t, Options{}).server }, 5500 * time.Millisecond, 0},
	} {
		s := c.make()
		codectest.Drain(s)
		codectest.Transmit(s, start)
		now, sent := until(s, start.Add(time.Minute))
		if now.Sub(start) != c.want {
			t.Errorf("%s: over after %v, want %v", c.what, now.Sub(start), c.want)
		}
		if e := wantKinds(t, s, codec.Disconnected); e[0].Reason != codec.TimedOut {
			t.Errorf("%s: %v", c.what, e[0].Reason)
		}
		if sent[kindWelcome] != c.resends {
			t.Errorf("%s: Welcome resent %d times, want %d", c.what, sent[kindWelcome], c.resends)
		}
	}
}

func TestServerTakesPlausibleRTT(t *testing.T) {
	for _, c := range []struct {
		rtt  int16
		want time.Duration
	}{{-1, 0}, {0, 0}, {120, 120 * time.Millisecond}, {5000, 5 * time.Second}, {5001, 0}, {-30000, 0}} {
		s := newServer(t, Options{}, "02")
		s.Admit(start, 1)
		_ = s.Receive(start, codectest.Unhex(t, "1800100000")) // the acknowledgement of our own Welcome never comes
		codectest.Transmit(s, start)
		h := heartbeat{ping: 9, rtt: c.rtt}
		if err := s.Receive(start, h.append(v22, nil)); err != nil {
			t.Fatal(err)
		}
		wantSent(t, s, start, "9400")
		if got := s.Stats().RTT; got != c.want {
			t.Errorf("claimed %d ms: RTT %v, want %v", c.rtt, got, c.want)
		}
	}
}

func TestAnnounce(t *testing.T) {
	p := newPair(t, Options{})
	for _, k := range []codec.EventKind{codec.Joined, codec.Left} {
		if err := p.server.Announce(p.now, k, 300); err != nil {
			t.Fatal(err)
		}
		if err := p.client.Announce(p.now, k, 300); !errors.Is(err, codec.ErrMode) {
			t.Errorf("client announces: %v, want ErrMode", err)
		}
	}
	if err := p.server.Announce(p.now, codec.Received, 300); !errors.Is(err, codec.ErrMode) {
		t.Errorf("announces %v: %v, want ErrMode", codec.Received, err)
	}
	sent := codectest.Transmit(p.server, p.now)
	for range 2 { // each arrives twice, and is new once
		for _, d := range sent {
			_ = p.client.Receive(p.now, d)
		}
	}
	for _, e := range wantKinds(t, p.client, codec.Joined, codec.Left) {
		if e.Client != 300 {
			t.Errorf("%v of client %d, want 300", e.Kind, e.Client)
		}
	}
	p.exchange()
	if q := p.server.Stats().Queued; q != 0 {
		t.Errorf("%d bytes queued after acknowledgement", q)
	}
	p.server.Close(p.now, codec.Goodbye{Reason: codec.Kicked})
	if err := p.server.Announce(p.now, codec.Joined, 1); !errors.Is(err, codec.ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", err)
	}
}
