package riptide

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// TestHeadroom: a header in front of our datagrams takes room from our messages, and not from the peer's.
func TestHeadroom(t *testing.T) {
	p := newPair(t, Options{MaxPayload: 4090, Headroom: 52})
	large := codec.Message{Mode: codec.Unreliable, Payload: make([]byte, 4090)}
	if err := p.client.Send(p.now, large); !errors.Is(err, codec.ErrTooLarge) {
		t.Errorf("%v, want ErrTooLarge", err)
	}
	theirs := p.client.dialect.append(nil, kindUnreliable, nil, large.Payload, 0)
	if err := p.client.Receive(p.now, theirs); errors.Is(err, codec.ErrMalformed) {
		t.Error(err)
	}
}

func TestSendErrors(t *testing.T) {
	p := newPair(t, Options{MaxQueued: 2000})
	big := make([]byte, 1230)
	for _, c := range []struct {
		what string
		m    codec.Message
		want error
	}{
		{"ordered", codec.Message{Mode: codec.ReliableOrdered}, codec.ErrMode},
		{"sequenced", codec.Message{Mode: codec.UnreliableSequenced}, codec.ErrMode},
		{"reliable too large", codec.Message{Mode: codec.Reliable, Payload: big[:1228]}, codec.ErrTooLarge},
		{"reliable with large ID", codec.Message{Mode: codec.Reliable, Payload: big[:1227], ID: 128}, codec.ErrTooLarge},
		{"unreliable too large", codec.Message{Mode: codec.Unreliable, Payload: big[:1230]}, codec.ErrTooLarge},
		{"notify too large", codec.Message{Mode: codec.Notify, Payload: big[:1226]}, codec.ErrTooLarge},
		{"reliable, the largest", codec.Message{Mode: codec.Reliable, Payload: big[:1227]}, nil},
		{"reliable over the bound", codec.Message{Mode: codec.Reliable, Payload: big[:800]}, codec.ErrFull},
		{"unreliable over the bound", codec.Message{Mode: codec.Unreliable, Payload: big[:800]}, codec.ErrFull},
		{"notify over the bound", codec.Message{Mode: codec.Notify, Payload: big[:800]}, codec.ErrFull},
		{"unreliable within the bound", codec.Message{Mode: codec.Unreliable, Payload: big[:700]}, nil},
	} {
		if err := p.client.Send(p.now, c.m); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
	}
	if err := p.client.Announce(p.now, codec.Joined, 1); !errors.Is(err, codec.ErrMode) {
		t.Errorf("announcing client: %v, want ErrMode", err)
	}
	p.exchange()
	wantQueued(t, p.client, 0)
	if err := p.client.Send(p.now, codec.Message{Mode: codec.Notify, Payload: big[:1225]}); err != nil {
		t.Errorf("notify, the largest: %v", err)
	}
	if h := p.client.notifier.header(); h.seq != 2 {
		t.Errorf("refused notify messages took %d numbers", h.seq-2)
	}
}

// TestRelayFilter: a client sends no message whose ID lies beyond the words of its server's filter, and a server any.
func TestRelayFilter(t *testing.T) {
	for size, refused := range map[int]int{0: 1 << 16, 1: 32, 32: 32, 33: 64, 100: 128, 65535: 1 << 16, 65536: 1 << 16} {
		for _, v := range []Version{V22, V20} {
			p := newPair(t, Options{Version: v, RelayFilter: size, MaxQueued: 1 << 24})
			for _, id := range []int{0, 31, 32, 63, 64, 127, 128, 65535} {
				for _, mode := range []codec.Mode{codec.Unreliable, codec.Reliable} {
					m := codec.Message{Mode: mode, ID: uint16(id), HasID: true}
					if err := p.client.Send(p.now, m); errors.Is(err, codec.ErrKiller) != (id >= refused) {
						t.Errorf("version %d, size %d, ID %d: %v", v, size, id, err)
					}
					if err := p.server.Send(p.now, m); err != nil {
						t.Errorf("a server's ID %d: %v", id, err)
					}
				}
			}
			if err := p.client.Send(p.now, codec.Message{Mode: codec.Notify, ID: 65535, HasID: true}); v == V22 && err != nil {
				t.Errorf("a notify message has no ID for the server: %v", err)
			}
		}
	}
}

// TestSendBounded: the number of messages that wait for a session or for acknowledgements is bounded.
func TestSendBounded(t *testing.T) {
	c := newClient(t, Options{MaxQueued: 1 << 30})
	m := codec.Message{Mode: codec.Reliable}
	for range maxWaiting {
		if err := c.Send(start, m); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Send(start, m); !errors.Is(err, codec.ErrFull) {
		t.Errorf("message %d: %v, want ErrFull", maxWaiting+1, err)
	}
	_ = c.Receive(start, codectest.Unhex(t, "1800100000"))
	if sent := len(codectest.Transmit(c, start)) - 2; sent != windowSize { // besides the acknowledgement and Welcome
		t.Errorf("%d messages in the air, want %d", sent, windowSize)
	}
	s := newServer(t, Options{MaxQueued: 1 << 30}, "02")
	for range maxWaiting {
		if err := s.Announce(start, codec.Joined, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Announce(start, codec.Joined, 1); !errors.Is(err, codec.ErrFull) {
		t.Errorf("news %d: %v, want ErrFull", maxWaiting+1, err)
	}
}

// TestControlBounded: a peer that provokes more answers than are ever transmitted cannot make them grow without bound.
func TestControlBounded(t *testing.T) {
	p := newPair(t, Options{})
	for range 3 * maxControl {
		_ = p.server.Receive(p.now, codectest.Unhex(t, "27001000"))
		_ = p.server.Receive(p.now, codectest.Unhex(t, "04f0ff0f"))
		codectest.Drain(p.server)
	}
	if n := p.server.control.bytes(); n > maxControl || n < maxControl-10 {
		t.Errorf("%d bytes of answers wait, want up to %d", n, maxControl)
	}
	if c := cap(p.server.control.log); c > 2*maxControl {
		t.Errorf("room for %d bytes of answers", c)
	}
}

// TestEveryBitIsForwarded: a received body is sent again unchanged, from either side, through Hello, messages and
// goodbyes.
func TestEveryBitIsForwarded(t *testing.T) {
	eachVersion(t, testEveryBitIsForwarded)
}

func testEveryBitIsForwarded(t *testing.T, v Version) {
	rng := rand.New(rand.NewPCG(9, 10))
	p := newPair(t, Options{Version: v})
	kinds := []kind{kindUnreliable, kindReliable, kindNotify}[:len(modesOf(v))]
	for n := range 3000 {
		k := kinds[n%len(kinds)]
		d := numbered(randomBytes(rng, 1+rng.IntN(60)), p.server, k)
		if err := p.server.Receive(p.now, d); err != nil {
			t.Fatalf("%x: %v", d, err)
		}
		e := wantKinds(t, p.server, codec.Received)[0]
		codectest.Transmit(p.server, p.now)
		if err := p.server.Send(p.now, e.Message); err != nil {
			t.Fatal(err)
		}
		out := codectest.Transmit(p.server, p.now)
		if len(out) != 1 || !sameBody(p.server.dialect, out[0], d, k) {
			t.Fatalf("%x came in as %+v and went out as %x", d, e.Message, out)
		}
		p.server.flight.acknowledge(p.server.flight.next - 1)
	}
}

// numbered returns a message with the bits of d, the next number that c expects, and d's message ID.
func numbered(d []byte, c *Conn, k kind) []byte {
	payload, pad := c.dialect.payload(nil, d, 0)
	id := uint16(d[0]) * uint16(len(d))
	switch k {
	case kindReliable:
		h := userHeader{reliable: true, seq: c.window.last + 1, id: id}
		return c.dialect.append(nil, k, h.append(c.dialect, nil), payload, pad)
	case kindNotify:
		h := notifyHeader{seq: c.notifier.last + 1}
		return c.dialect.append(nil, k, h.append(nil), payload, pad)
	}
	h := userHeader{id: id}
	return c.dialect.append(nil, k, h.append(c.dialect, nil), payload, pad)
}

// sameBody compares two datagrams except for the numbers of the session.
func sameBody(w *dialect, a, b []byte, k kind) bool {
	skip := map[kind]int{kindUnreliable: 0, kindReliable: 2, kindNotify: notifyHeaderLen}[k]
	if len(a) != len(b) || w.kindOf(a) != w.kindOf(b) {
		return false
	}
	x, padX := w.payload(nil, a, skip)
	y, padY := w.payload(nil, b, skip)
	return bytes.Equal(x, y) && padX == padY
}

func TestHelloAndGoodbyeBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	p := New(Options{})
	for range 500 {
		connect := randomBytes(rng, 1+rng.IntN(30))
		connect[0] = connect[0]&0xf0 | byte(kindConnect)
		conn, _, _ := p.Accept(start, address, connect, nil)
		hello := wantKinds(t, conn, codec.Asked)[0]
		again := p.Dial(start, address, codec.Hello{Data: hello.Payload, Pad: hello.Pad})
		wantSent(t, again, start, hexOf(connect))

		reject := append([]byte{0x43, connect[0] & 0xf0}, connect[1:]...) // reason 4 and the same bits
		if err := again.Receive(start, reject); err != nil {
			t.Fatal(err)
		}
		bye := wantKinds(t, again, codec.Disconnected)[0]
		codectest.Transmit(conn, start)
		conn.Close(start, codec.Goodbye{Reason: bye.Reason, Data: bye.Payload, Pad: bye.Pad})
		wantSent(t, conn, start, hexOf(reject), hexOf(reject), hexOf(reject))
	}
}

// TestSendIDs: unreliable and reliable messages always have an ID on the wire, notify messages only on request.
func TestSendIDs(t *testing.T) {
	p := newPair(t, Options{})
	for _, c := range []struct {
		m    codec.Message
		want string
	}{
		{codec.Message{Mode: codec.Unreliable, Payload: []byte{0x5a}}, "00a005"},
		{codec.Message{Mode: codec.Unreliable, Payload: []byte{0x5a}, HasID: true, ID: 65535}, "f0ff3fa005"},
		{codec.Message{Mode: codec.Notify, Payload: []byte{0x5a}}, "0600001000a005"},
		{codec.Message{Mode: codec.Notify, Payload: []byte{0x5a}, HasID: true, ID: 3}, "0600002000" + "30a005"},
	} {
		if err := p.client.Send(p.now, c.m); err != nil {
			t.Fatal(err)
		}
		wantSent(t, p.client, p.now, c.want)
	}
}

func wantQueued(t *testing.T, c *Conn, want int) {
	t.Helper()
	if q := c.Stats().Queued; q != want {
		t.Errorf("%d bytes queued, want %d", q, want)
	}
}

// TestReliableGivesUp: a reliable message is sent 15 times, and then the connection is given up.
func TestReliableGivesUp(t *testing.T) {
	for _, c := range []struct {
		what string
		rtt  time.Duration
		want time.Duration
	}{
		{"no round trip known", 0, 15 * 50 * ms},
		{"a short one", ms, 30*ms + 3*10*ms + 11*patientResend},
		{"a long one", 100 * ms, 4*120*ms + 11*(100*ms*5/3)},
	} {
		p := newPair(t, Options{})
		p.client.rtt = rtt{Smooth: c.rtt}
		p.client.ticker.next = start.Add(time.Hour)
		for r := range codec.Receipt(2) {
			if err := p.client.Send(p.now, codec.Message{Mode: codec.Reliable, Receipt: r + 1}); err != nil {
				t.Fatal(err)
			}
		}
		now, sent := until(p.client, start.Add(time.Minute))
		if now.Sub(start) != c.want || sent[kindReliable] != 2*maxSends {
			t.Errorf("%s: over after %v and %d transmissions, want %v and 30",
				c.what, now.Sub(start), sent[kindReliable], c.want)
		}
		e := wantKinds(t, p.client, codec.Lost, codec.Lost, codec.Disconnected)
		if e[0].Receipt != 1 || e[1].Receipt != 2 || e[2].Reason != codec.PoorConnection {
			t.Errorf("%s: %+v", c.what, e)
		}
		s := p.client.Stats()
		if s.Resent != 2*(maxSends-1) || s.Lost != 2 {
			t.Errorf("%s: %d resent, %d lost; want 28 and 2", c.what, s.Resent, s.Lost)
		}
	}
}
