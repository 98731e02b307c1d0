package rudp

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
)

// payloads are the payloads of all Received events.
func payloads(events []codec.Event) (list []string) {
	for _, e := range events {
		if e.Kind == codec.Received {
			list = append(list, string(e.Payload))
		}
	}
	return list
}

func send(t testing.TB, c *Conn, payload string, r codec.Receipt) {
	t.Helper()
	m := codec.Message{Payload: []byte(payload), Mode: codec.Notify, Receipt: r}
	if err := c.Send(start, m); err != nil {
		t.Fatal(err)
	}
}

// Each side sends one packet a period, whatever is queued and however late it is woken.
func TestPace(t *testing.T) {
	p := newPair(t, Options{Rate: 20})
	for _, c := range []*Conn{p.client, p.server} {
		now := c.NextTimeout()
		send(t, c, "a", 0)
		send(t, c, "b", 0)
		for _, step := range []struct {
			what string
			wait time.Duration
			want int
		}{
			{"on the beat", 0, 1},
			{"at once again", 0, 0},
			{"just before the next", 50*ms - 1, 0},
			{"at the next", 1, 1},
			{"late", 60 * ms, 1},
			{"on the beat after that", 40 * ms, 1},
			{"missed several", 500 * ms, 1},
			{"and no more", 49 * ms, 0},
			{"but a period later", 1 * ms, 1},
		} {
			now = now.Add(step.wait)
			c.Advance(now)
			if got := transmit(c, now); len(got) != step.want {
				t.Fatalf("%s: %d packets, want %d", step.what, len(got), step.want)
			}
		}
	}
}

func TestMessagesOfOnePeriodAreJoined(t *testing.T) {
	p := newPair(t, Options{MaxJoined: 8})
	for _, s := range []string{"abc", "def", "gh", "i", "longer than joined", "j"} {
		send(t, p.client, s, 0)
		send(t, p.server, s, 0)
	}
	if q := p.client.Stats().Queued; q != 28 {
		t.Errorf("%d bytes queued", q)
	}
	for range 5 {
		p.step()
	}
	want := []string{"abcdefgh", "i", "longer than joined", "j"}
	if got := payloads(p.atServer); !slices.Equal(got, want) {
		t.Errorf("server received %q", got)
	}
	if got := payloads(p.atClient); !slices.Equal(got, want) || p.client.Stats().Queued != 0 {
		t.Errorf("client received %q", got)
	}
}

func TestSendErrors(t *testing.T) {
	p := newPair(t, Options{MaxPayload: 100, MaxQueued: 1000})
	c := p.client
	for _, step := range []struct {
		size int
		mode codec.Mode
		want error
	}{
		{10, codec.Reliable, codec.ErrMode},
		{10, codec.Notify + 1, codec.ErrMode},
		{0, codec.Notify, errEmpty},
		{101, codec.Notify, codec.ErrTooLarge},
		{100, codec.Notify, nil},
		{100, codec.Unreliable, nil},
	} {
		err := c.Send(p.now, codec.Message{Payload: make([]byte, step.size), Mode: step.mode})
		if !errors.Is(err, step.want) {
			t.Errorf("%d bytes %v: %v, want %v", step.size, step.mode, err, step.want)
		}
	}
	for range 8 {
		send(t, c, string(make([]byte, 100)), 0)
	}
	if err := c.Send(p.now, codec.Message{Payload: []byte{1}}); !errors.Is(err, codec.ErrFull) {
		t.Errorf("over MaxQueued: %v", err)
	}
	c.Close(p.now, codec.Goodbye{})
	if err := c.Send(p.now, codec.Message{Payload: []byte{1}}); !errors.Is(err, codec.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestSendBoundsMessages(t *testing.T) {
	c := newPair(t, Options{}).client
	for range maxWaiting {
		send(t, c, "x", 0)
	}
	if err := c.Send(start, codec.Message{Payload: []byte("x")}); !errors.Is(err, codec.ErrFull) {
		t.Errorf("%d messages wait: %v", maxWaiting+1, err)
	}
}

// Each receipt is answered as soon as the peer acknowledges a newer packet, and those without an answer at the end.
func TestReceipts(t *testing.T) {
	for _, base := range []seq{0, 65530} {
		p := newPair(t, Options{base: base})
		for r := codec.Receipt(1); r <= 6; r++ {
			send(t, p.client, "x", r)
			if r == 5 {
				break // joined with 6
			}
			p.now = p.now.Add(p.client.period)
			p.client.Advance(p.now)
			if d := one(t, p.client, p.now); r != 2 {
				_ = p.server.Receive(p.now, d)
			}
		}
		send(t, p.client, "y", 6)
		p.atClient = nil
		for range 3 {
			p.step()
		}
		send(t, p.client, "never sent", 7)
		p.client.Close(p.now, codec.Goodbye{Reason: codec.Closed})
		p.exchange()
		answers := map[codec.Receipt]codec.EventKind{}
		for _, e := range p.atClient {
			if e.Receipt != 0 {
				answers[e.Receipt] = e.Kind
			}
		}
		for r, want := range []codec.EventKind{0, codec.Delivered, codec.Lost, codec.Delivered, codec.Delivered,
			codec.Delivered, codec.Delivered, codec.Lost} {
			if answers[codec.Receipt(r)] != want {
				t.Errorf("base %d: receipt %d: %v, want %v", base, r, answers[codec.Receipt(r)], want)
			}
		}
		if lost := p.client.Stats().Lost; lost != 1 {
			t.Errorf("base %d: Stats.Lost %d, want 1", base, lost)
		}
	}
}

// The 34th packet without an acknowledgement says goodbye. The reason tells whether the peer is silent.
func TestGiveUp(t *testing.T) {
	for _, heard := range []bool{false, true} {
		p := newPair(t, Options{Rate: 20, base: 65510})
		if unacknowledged := p.client.flight.next.minus(p.client.flight.acked) - 1; unacknowledged != 1 {
			t.Fatalf("%d packets unacknowledged at first", unacknowledged)
		}
		sent := 1
		var last []byte
		for p.client.state != closed {
			if heard {
				stale := packet{seq: p.client.received.last + 1, acks: acks{last: p.client.flight.acked}, kind: kindKeepAlive}
				if err := p.client.Receive(p.now, stale.append(nil)); err != nil {
					t.Fatal(err)
				}
			}
			p.now = p.client.NextTimeout()
			p.client.Advance(p.now)
			last = one(t, p.client, p.now)
			sent++
		}
		want := codec.TimedOut
		if heard {
			want = codec.PoorConnection
		}
		got := drain(p.client)
		if sent != 34 || parse(t, last).kind != kindNotify || len(got) != 1 || got[0].Reason != want {
			t.Errorf("heard %v: %d packets, the last %x, events %v", heard, sent, last, got)
		}
		if heard {
			continue // the last packet acknowledges what the server has not sent
		}
		_ = p.server.Receive(p.now, last)
		if got := drain(p.server); len(got) != 1 || got[0].Reason != codec.Closed {
			t.Errorf("the server makes of the last packet: %v", got)
		}
	}
}

// The peer's goodbye ends a session at once, and is not answered.
func TestNotifyEnds(t *testing.T) {
	for _, closer := range []string{"client", "server"} {
		p := newPair(t, Options{})
		p.atClient, p.atServer = nil, nil
		from, heard := p.client, &p.atServer
		if closer == "server" {
			from, heard = p.server, &p.atClient
		}
		from.Close(p.now, codec.Goodbye{Reason: codec.Kicked, Data: []byte("why")})
		p.exchange()
		if len(*heard) != 1 || (*heard)[0].Reason != codec.Closed || len((*heard)[0].Payload) > 0 {
			t.Errorf("after the %s's goodbye: %v", closer, *heard)
		}
		p.now = p.now.Add(time.Second)
		p.client.Advance(p.now)
		p.server.Advance(p.now)
		rest := append(transmit(p.client, p.now), transmit(p.server, p.now)...)
		if len(rest) > 0 || !p.client.NextTimeout().IsZero() || !p.server.NextTimeout().IsZero() {
			t.Errorf("after the end: %x", rest)
		}
		if err := from.Receive(p.now, keepAlive(9, 1)); !errors.Is(err, codec.ErrUnexpected) {
			t.Errorf("received after the end: %v", err)
		}
	}
}

// Packets that the peer cannot have sent change nothing, and do not end the session.
func TestForged(t *testing.T) {
	p := newPair(t, Options{base: 65535})
	for _, c := range []*Conn{p.client, p.server} {
		last, acked, next := c.received.last, c.flight.acked, c.flight.next
		for what, bad := range map[string]struct {
			packet
			err error
		}{
			"the newest again":         {packet{seq: last, acks: acks{last: acked}, kind: kindNotify}, codec.ErrDuplicate},
			"late":                     {packet{seq: last - 1, acks: acks{last: acked}, kind: kindData}, codec.ErrDuplicate},
			"half the circle away":     {packet{seq: last + 32768, acks: acks{last: acked}, kind: kindData}, codec.ErrDuplicate},
			"too far ahead":            {packet{seq: last + 35, acks: acks{last: acked}, kind: kindData}, codec.ErrWindow},
			"acknowledges the future":  {packet{seq: last + 1, acks: acks{last: next}, kind: kindData}, codec.ErrWindow},
			"acknowledges the past":    {packet{seq: last + 1, acks: acks{last: acked - 1}, kind: kindData}, codec.ErrWindow},
			"acknowledges far away":    {packet{seq: last + 1, acks: acks{last: next + 32767}, kind: kindData}, codec.ErrWindow},
			"another application":      {packet{app: 1, seq: last + 1, acks: acks{last: acked}, kind: kindData}, codec.ErrUnexpected},
			"request within a session": {packet{seq: last + 1, acks: acks{last: acked}, kind: kindRequest}, codec.ErrUnexpected},
			"refusal within a session": {packet{seq: last + 1, acks: acks{last: acked}, kind: kindRefuse}, codec.ErrUnexpected},
		} {
			bad.data = []byte{1, 2}
			before := c.received
			if err := c.Receive(p.now, bad.append(nil)); !errors.Is(err, bad.err) {
				t.Errorf("%s: %v, want %v", what, err, bad.err)
			}
			if got := drain(c); len(got) > 0 || c.received != before || c.flight.acked != acked {
				t.Errorf("%s: changes the session: %v", what, got)
			}
		}
		farthest := packet{seq: last + 34, acks: acks{last: acked}, kind: kindKeepAlive}
		if err := c.Receive(p.now, farthest.append(nil)); err != nil {
			t.Errorf("34 ahead: %v", err)
		}
	}
	accept := packet{seq: p.server.received.last + 1, acks: acks{last: p.server.flight.acked}, kind: kindAccept}
	if err := p.server.Receive(p.now, accept.append(nil)); !errors.Is(err, codec.ErrUnexpected) {
		t.Errorf("Accept for a server: %v", err)
	}
}

// All numbers wrap twice in one session, and nothing is lost.
func TestWrap(t *testing.T) {
	p := newPair(t, Options{Rate: 250})
	const packets = 2<<16 + 10
	for i := range packets {
		payload := []byte{byte(i), byte(i >> 8), byte(i >> 16)}
		for _, c := range []*Conn{p.client, p.server} {
			send(t, c, string(payload), 1)
		}
		p.atClient, p.atServer = p.atClient[:0], p.atServer[:0]
		p.step()
		for _, got := range [][]codec.Event{p.atClient, p.atServer} {
			for _, e := range got {
				if e.Kind == codec.Lost || e.Kind == codec.Received && !bytes.Equal(e.Payload, payload) {
					t.Fatalf("packet %d: %v %x", i, e.Kind, e.Payload)
				}
			}
			if !slices.Equal(payloads(got), []string{string(payload)}) {
				t.Fatalf("packet %d: received %q", i, payloads(got))
			}
		}
	}
}

func TestRTT(t *testing.T) {
	p := newPair(t, Options{Rate: 20})
	for range 100 {
		p.now = p.now.Add(50 * ms)
		p.client.Advance(p.now)
		d := one(t, p.client, p.now)
		p.now = p.now.Add(30 * ms)
		_ = p.server.Receive(p.now, d)
		p.server.Advance(p.now)
		for _, back := range transmit(p.server, p.now) {
			_ = p.client.Receive(p.now.Add(10*ms), back)
		}
	}
	if got := p.client.Stats().RTT; got < 39*ms || got > 41*ms {
		t.Errorf("RTT %v, want 40 ms", got)
	}
}

func TestAnnounce(t *testing.T) {
	if err := newPair(t, Options{}).server.Announce(start, codec.Joined, 1); !errors.Is(err, codec.ErrMode) {
		t.Error(err)
	}
}
