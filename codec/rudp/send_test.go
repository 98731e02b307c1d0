package rudp

import (
	"errors"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// payloads returns the payloads of all Received events.
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

// TestPace: each side sends one packet a period, for any queue and any delay of its wake-ups.
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
			if got := codectest.Transmit(c, now); len(got) != step.want {
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
	p.step()
	want := []string{"abcdefgh", "i", "longer than joined", "j"}
	if got := payloads(p.atServer); !slices.Equal(got, want) {
		t.Errorf("server received %q", got)
	}
	if got := payloads(p.atClient); !slices.Equal(got, want) || p.client.Stats().Queued != 0 {
		t.Errorf("client received %q", got)
	}
}

// TestHiccup: after a stall of the network many packets of the far side come at once, and then one each period. None
// of them waits for the next period, and none is joined with another.
func TestHiccup(t *testing.T) {
	for _, size := range []int{100, 800, 2000} {
		p := newPair(t, Options{})
		for tick := range 100 {
			n := 1
			switch {
			case tick == 50:
				n = 21
			case tick >= 30 && tick < 50:
				n = 0
			}
			for range n {
				sendApart(t, p.client, size)
			}
			p.atServer = nil
			p.step()
			isOther := func(e codec.Event) bool { return len(e.Payload) != size || !e.Apart }
			if len(p.atServer) != n || slices.ContainsFunc(p.atServer, isOther) {
				t.Fatalf("%d bytes, period %d: %d packets came of %d", size, tick, len(p.atServer), n)
			}
		}
	}
}

func sendApart(t testing.TB, c *Conn, size int) {
	t.Helper()
	m := codec.Message{Payload: make([]byte, size), Mode: codec.UnreliableSequenced, Apart: true}
	if err := c.Send(start, m); err != nil {
		t.Fatal(err)
	}
}

// TestFullFlight: a backlog leaves no more than 33 packets unacknowledged. It ends the session no earlier than a packet
// each period would.
func TestFullFlight(t *testing.T) {
	for _, acknowledged := range []bool{true, false} {
		p := newPair(t, Options{})
		for range 2 * maxInFlight {
			sendApart(t, p.client, 800)
		}
		sent := p.client.flight.next - p.client.flight.acked - 1
		for range maxInFlight - 1 {
			p.now = p.client.NextTimeout()
			p.client.Advance(p.now)
			sent += seq(len(codectest.Transmit(p.client, p.now)))
		}
		if sent != maxInFlight || p.client.state != connected {
			t.Fatalf("%d packets without an acknowledgement, state %d", sent, p.client.state)
		}
		if acknowledged {
			all := packet{seq: p.client.received.last + 1, acks: acks{last: p.client.flight.next - 1}, kind: kindKeepAlive}
			if err := p.client.Receive(p.now, all.append(nil)); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			p.now = p.client.NextTimeout()
			p.client.Advance(p.now)
			sent += seq(len(codectest.Transmit(p.client, p.now)))
		}
		if acknowledged && (sent != 2*maxInFlight || p.client.state != connected) ||
			!acknowledged && p.client.state != closed {
			t.Errorf("acknowledged %v: %d packets, state %d", acknowledged, sent, p.client.state)
		}
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

// TestReceipts: each receipt gets its answer as soon as the peer acknowledges a newer packet. The end of the session
// answers the others.
func TestReceipts(t *testing.T) {
	for _, base := range []seq{0, 65530} {
		p := newPair(t, Options{base: base})
		for r := codec.Receipt(1); r <= 6; r++ {
			send(t, p.client, "x", r)
			if r == 5 {
				break // joined with message 6
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

// TestReceiptsInFlight: a side without acknowledgements holds the receipts of at most 33 packets, 256 each, and
// answers all of them.
func TestReceiptsInFlight(t *testing.T) {
	p := newPair(t, Options{})
	answers := map[codec.Receipt]int{}
	most, r := 0, codec.Receipt(0)
	for p.client.state != closed {
		for range maxJoined {
			r++
			send(t, p.client, "x", r)
		}
		p.now = p.client.NextTimeout()
		p.client.Advance(p.now)
		one(t, p.client, p.now)
		most = max(most, len(p.client.flight.receipts))
		for _, e := range codectest.Drain(p.client) {
			if e.Kind == codec.Lost {
				answers[e.Receipt]++
			}
		}
	}
	if want := (maxInFlight - 1) * maxJoined; most != want { // the first packet is newPair's
		t.Errorf("%d receipts in flight, want %d", most, want)
	}
	for i := codec.Receipt(1); i <= r; i++ {
		if answers[i] != 1 {
			t.Fatalf("receipt %d of %d answered %d times", i, r, answers[i])
		}
	}
}
