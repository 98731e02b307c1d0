package riptide

import (
	"errors"
	"testing"
	"time"
	"unsafe"

	"tidegate/codec"
	"tidegate/codec/codectest"
	"tidegate/internal/testkit/allocs"
)

// TestNotifyReceipts: the acknowledgements in the peer's own notify messages answer notify receipts.
func TestNotifyReceipts(t *testing.T) {
	p := newPair(t, Options{})
	for r := range codec.Receipt(4) {
		if err := p.client.Send(p.now, codec.Message{Mode: codec.Notify, Receipt: r + 1}); err != nil {
			t.Fatal(err)
		}
	}
	for i, d := range codectest.Transmit(p.client, p.now) {
		if i == 0 || i == 2 {
			_ = p.server.Receive(p.now, d)
		}
	}
	wantKinds(t, p.server, codec.Received, codec.Received)
	wantKinds(t, p.client)
	if err := p.server.Send(p.now, codec.Message{Mode: codec.Notify}); err != nil {
		t.Fatal(err)
	}
	for _, d := range codectest.Transmit(p.server, p.now) {
		_ = p.client.Receive(p.now, d)
	}
	events := wantKinds(t, p.client, codec.Delivered, codec.Lost, codec.Delivered, codec.Received)
	for i, e := range events[:3] {
		if e.Receipt != codec.Receipt(i+1) {
			t.Errorf("receipt %d answered, want %d", e.Receipt, i+1)
		}
	}
	p.client.Close(p.now, codec.Goodbye{})
	if e := wantKinds(t, p.client, codec.Lost, codec.Disconnected); e[0].Receipt != 4 {
		t.Errorf("receipt %d answered at the end, want 4", e[0].Receipt)
	}
}

func TestReliableReceipts(t *testing.T) {
	p := newPair(t, Options{})
	if err := p.client.Send(p.now, codec.Message{Mode: codec.Reliable, Receipt: 9}); err != nil {
		t.Fatal(err)
	}
	p.atClient = nil
	p.exchange()
	if len(p.atClient) != 1 || p.atClient[0].Kind != codec.Delivered || p.atClient[0].Receipt != 9 {
		t.Errorf("events %+v, want Delivered of 9", p.atClient)
	}
}

// TestRTTByAcknowledgements: both sides measure the round trip by acknowledgements of messages that were sent once.
func TestRTTByAcknowledgements(t *testing.T) {
	const away = 30 * time.Millisecond
	p := newPair(t, Options{})
	for _, ends := range [][2]*Conn{{p.client, p.server}, {p.server, p.client}} {
		from, to := ends[0], ends[1]
		from.rtt = rtt{}
		for _, resends := range []int{0, 1} {
			if err := from.Send(p.now, codec.Message{Mode: codec.Reliable}); err != nil {
				t.Fatal(err)
			}
			sent := codectest.Transmit(from, p.now)
			for range resends {
				p.now = from.NextTimeout()
				from.Advance(p.now)
				sent = append(sent, codectest.Transmit(from, p.now)...)
			}
			p.now = p.now.Add(time.Duration(1+resends) * away)
			for _, d := range sent {
				_ = to.Receive(p.now, d)
			}
			codectest.Drain(to)
			for _, d := range codectest.Transmit(to, p.now) {
				_ = from.Receive(p.now, d)
			}
		}
		if got := from.Stats().RTT; got != away {
			t.Errorf("RTT %v, want %v: a message sent twice does not tell", got, away)
		}
	}
}

// TestRTTByWelcome: Welcome measures the round trip too, if it was sent once.
func TestRTTByWelcome(t *testing.T) {
	for resends, want := range []time.Duration{30 * time.Millisecond, 0} {
		s := newServer(t, Options{}, "02")
		s.Admit(start, 1)
		now := start
		for range resends {
			now = s.NextTimeout()
			s.Advance(now)
		}
		if err := s.Receive(now.Add(30*time.Millisecond), codectest.Unhex(t, "1100100000")); err != nil {
			t.Fatal(err)
		}
		if got := s.Stats().RTT; got != want {
			t.Errorf("%d resends: RTT %v, want %v", resends, got, want)
		}
	}
}

// silence runs a connection until a time. Its peer is silent, and hears nothing.
func silence(c codec.Conn, until time.Time) {
	for next := c.NextTimeout(); !next.IsZero() && !next.After(until); next = c.NextTimeout() {
		c.Advance(next)
		codectest.Transmit(c, next)
	}
}

// TestAckSettles: one acknowledgement settles all messages that it covers.
func TestAckSettles(t *testing.T) {
	p := newPair(t, Options{})
	for r := range codec.Receipt(6) {
		if err := p.client.Send(p.now, codec.Message{Mode: codec.Reliable, Receipt: r + 1}); err != nil {
			t.Fatal(err)
		}
	}
	// The acknowledgement is for messages 2 to 7: 7 is the newest, 5 and 4 are in the bits, 2 caused it.
	a := ack{last: 7, bits: 0b110, forSeq: 2}
	if err := p.client.Receive(p.now, a.append(v22, nil)); err != nil {
		t.Fatal(err)
	}
	for i, e := range wantKinds(t, p.client, codec.Delivered, codec.Delivered, codec.Delivered, codec.Delivered) {
		if want := []codec.Receipt{1, 6, 4, 3}[i]; e.Receipt != want {
			t.Errorf("receipt %d answered, want %d", e.Receipt, want)
		}
	}
	wantSent(t, p.client, p.now, "37000000", "67000000") // the others need not be sent any more
}

// TestTimeOutLeavesRoomForALateHeartbeat: a path that is dead for 4.6 s ends no idle session. The library's heartbeats
// come a little later than each second, so the next one arrives after more than the time-out. With one more lost
// heartbeat the session is over.
func TestTimeOutLeavesRoomForALateHeartbeat(t *testing.T) {
	const beat, rtt = 1010 * time.Millisecond, 100 * time.Millisecond
	eachVersion(t, func(t *testing.T, v Version) {
		for _, c := range []struct {
			missed int
			lives  bool
		}{{4, true}, {5, false}} {
			p := newPair(t, Options{Version: v})
			p.client.options.HeartbeatInterval = beat
			p.client.ticker.next = p.now.Add(beat)
			for i := range c.missed + 3 {
				p.now = p.client.ticker.next
				p.server.Advance(p.now)
				p.client.Advance(p.now)
				lost := i > 0 && i <= c.missed
				for _, d := range codectest.Transmit(p.client, p.now) {
					if !lost {
						_ = p.server.Receive(p.now, d)
					}
				}
				for _, d := range codectest.Transmit(p.server, p.now) {
					_ = p.client.Receive(p.now.Add(rtt), d)
				}
			}
			for name, conn := range map[string]*Conn{"client": p.client, "server": p.server} {
				if lives := conn.state == connected; lives != c.lives {
					t.Errorf("%s: lives on after %d heartbeats in vain: %v, want %v", name, c.missed, lives, c.lives)
				}
			}
		}
	})
}

// poorLink sends reliable or notify messages until the client is disconnected or all are sent. The first transmission
// of each reliable message is lost. One in eight notify messages arrives.
func poorLink(t *testing.T, o Options, mode codec.Mode) (sent int, over bool) {
	p := newPair(t, o)
	for sent = 1; sent <= 300; sent++ {
		if err := p.client.Send(p.now, codec.Message{Mode: mode}); err != nil {
			t.Fatal(err)
		}
		if mode == codec.Reliable {
			p.client.flight.at(p.client.flight.unsent - 1).sends = maxMeanSends + 1
		} else if sent%8 != 0 {
			codectest.Transmit(p.client, p.now)
			continue
		}
		p.exchange()
		if err := p.server.Send(p.now, codec.Message{Mode: mode}); err != nil {
			t.Fatal(err)
		}
		p.exchange()
		if p.client.state == closed {
			last := p.atClient[len(p.atClient)-1]
			return sent, last.Kind == codec.Disconnected && last.Reason == codec.PoorConnection
		}
	}
	return sent, false
}

func TestQualityEndsConnections(t *testing.T) {
	if sent, over := poorLink(t, Options{}, codec.Reliable); !over || sent != qualityRuns {
		t.Errorf("over %v after %d messages, want %d", over, sent, qualityRuns)
	}
	if sent, over := poorLink(t, Options{IgnoreQuality: true}, codec.Reliable); over {
		t.Errorf("over after %d messages though quality is ignored", sent)
	}
	if sent, over := poorLink(t, Options{}, codec.Notify); over {
		t.Errorf("over after %d notify messages, of which most were lost", sent)
	}
}

func TestMaxInFlight(t *testing.T) {
	testMaxInFlight(t, Options{MaxInFlight: 31}, 31)
	testMaxInFlight(t, Options{Version: V20}, 16)
}

func testMaxInFlight(t *testing.T, o Options, want int) {
	p := newPair(t, o)
	for range 40 {
		if err := p.client.Send(p.now, codec.Message{Mode: codec.Reliable}); err != nil {
			t.Fatal(err)
		}
	}
	first := codectest.Transmit(p.client, p.now)
	if len(first) != want {
		t.Fatalf("%d messages in the air, want %d", len(first), want)
	}
	for _, d := range first {
		_ = p.server.Receive(p.now, d)
		codectest.Drain(p.server)
	}
	p.exchange()
	if !p.client.flight.isIdle() {
		t.Error("messages wait though all before them were acknowledged")
	}
}

func TestMalformedChangesNothing(t *testing.T) {
	p := newPair(t, Options{})
	large := make([]byte, 1232)
	for _, c := range []struct {
		what     string
		datagram []byte
		want     error
	}{
		{"empty", nil, codec.ErrMalformed},
		{"too large", large, codec.ErrMalformed},
		{"short Ack", codectest.Unhex(t, "11001000"), codec.ErrMalformed},
		{"short Heartbeat", codectest.Unhex(t, "04f0ff"), codec.ErrMalformed},
		{"short Notify", codectest.Unhex(t, "0600001000"), codec.ErrMalformed},
		{"Reliable without number", codectest.Unhex(t, "2700"), codec.ErrMalformed},
		{"Unreliable without ID", codectest.Unhex(t, "10"), codec.ErrMalformed},
		{"Reject from a client", codectest.Unhex(t, "2300"), codec.ErrUnexpected},
		{"leap of a number", codectest.Unhex(t, "0700f8"+"1000"), codec.ErrWindow},
	} {
		if err := p.server.Receive(p.now, c.datagram); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
	}
	wantKinds(t, p.server)
	wantSent(t, p.server, p.now)
	if s := p.server.Stats(); s.Dropped != 9 {
		t.Errorf("%d dropped, want 9", s.Dropped)
	}
}

// TestStrangeReliableIsAcknowledged: unknown types and reliable messages without an ID are acknowledged, as the
// library does. Otherwise their sender would give the connection up.
func TestStrangeReliableIsAcknowledged(t *testing.T) {
	for _, c := range []struct {
		datagram, want string
		err            error
	}{
		{"2b0010a005", "2100300000", codec.ErrUnexpected},
		{"270000", "2100300000", codec.ErrMalformed},
		{"290010a005", "2100300000", codec.ErrUnexpected},
	} {
		p := newPair(t, Options{})
		if err := p.server.Receive(p.now, codectest.Unhex(t, c.datagram)); !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", c.datagram, err, c.err)
		}
		wantSent(t, p.server, p.now, c.want)
		wantKinds(t, p.server)
	}
}

// TestIdleIsSmall: two heartbeats after its last message a connection holds no buffers.
func TestIdleIsSmall(t *testing.T) {
	eachVersion(t, testIdleIsSmall)
}

func testIdleIsSmall(t *testing.T, v Version) {
	if size := unsafe.Sizeof(Conn{}); size > 1024 {
		t.Errorf("a Conn takes %d bytes", size)
	}
	p := newPair(t, Options{Version: v})
	modes := modesOf(v)
	for n := range 500 {
		m := codec.Message{Mode: modes[n%len(modes)], Payload: make([]byte, n), Receipt: 1}
		for _, c := range []*Conn{p.client, p.server} {
			if err := c.Send(p.now, m); err != nil {
				t.Fatal(err)
			}
		}
		p.exchange()
	}
	for range 3 {
		p.now = p.client.NextTimeout()
		p.client.Advance(p.now)
		p.exchange()
	}
	for _, c := range []*Conn{p.client, p.server} {
		if held := heldBytes(c); held > 300 {
			t.Errorf("an idle connection holds %d bytes besides itself", held)
		}
	}
}

// heldBytes returns the size of c's buffers.
func heldBytes(c *Conn) int {
	return cap(c.flight.ring)*int(unsafe.Sizeof(inFlight{})) + c.flight.spare.bytes +
		cap(c.notifier.receipts)*int(unsafe.Sizeof(notifyReceipt{})) +
		8*cap(c.window.bits) + cap(c.control.log) + cap(c.data.log) + cap(c.scratch) +
		c.events.Room()*int(unsafe.Sizeof(codec.Event{}))
}

// TestSteadyPathAllocatesNothing includes resends and losses.
func TestSteadyPathAllocatesNothing(t *testing.T) {
	eachVersion(t, testSteadyPath)
}

func testSteadyPath(t *testing.T, v Version) {
	p := newPair(t, Options{Version: v, IgnoreQuality: true})
	modes := modesOf(v)
	payload, buffer := make([]byte, 120), make([]byte, 0, codec.MaxDatagram)
	carry := func(from, to *Conn, lose int) {
		for i := 1; ; i++ {
			d, ok := from.Transmit(p.now, buffer)
			if !ok {
				return
			}
			if i == lose {
				continue
			}
			_ = to.Receive(p.now, d)
			for _, ok := to.Poll(); ok; _, ok = to.Poll() {
			}
		}
	}
	n := 0
	step := func() {
		n++
		p.now = p.now.Add(20 * time.Millisecond)
		for _, c := range []*Conn{p.client, p.server} {
			for _, mode := range modes {
				_ = c.Send(p.now, codec.Message{Mode: mode, Payload: payload, Receipt: codec.Receipt(n)})
			}
			for _, ok := c.Poll(); ok; _, ok = c.Poll() {
			}
			c.Advance(p.now)
		}
		carry(p.client, p.server, 2*(n%3))
		carry(p.server, p.client, 2*(n%5))
		carry(p.client, p.server, 0)
	}
	for range 3000 {
		step()
	}
	if allocations := allocs.PerRun(1000, step); allocations != 0 {
		t.Errorf("%v allocations each step", allocations)
	}
	if p.client.state != connected || p.server.state != connected || p.client.Stats().Resent == 0 {
		t.Errorf("client in state %d, server in %d, %+v", p.client.state, p.server.state, p.client.Stats())
	}
}
