package riptide

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// TestTypes20: every first byte of a datagram is some kind of message, and every kind has its byte.
func TestTypes20(t *testing.T) {
	want := map[byte]kind{
		0: kindUnreliable, 1: kindAck, 2: kindAck, 3: kindConnect, 4: kindReject, 5: kindHeartbeat, 6: kindDisconnect,
		7: kindReliable, 8: kindWelcome, 9: kindClientConnected, 10: kindClientDisconnected,
	}
	for i := range 256 {
		x := byte(i)
		k := v20.kindOf([]byte{x})
		if k != want[x] && x <= 10 || x > 10 && k <= kindClientDisconnected {
			t.Errorf("type %d is kind %d, want %d", x, k, want[x])
		}
		if again := v20.typeOf(k); again != x && x != typeAckExtra {
			t.Errorf("type %d is kind %d, whose type is %d", x, k, again)
		}
	}
}

func TestRejectReasons20(t *testing.T) {
	for x, want := range []uint8{rejectNoConnection, rejectAlreadyConnected, rejectPending, rejectServerFull,
		rejectRejected, rejectCustom} {
		if got := v20.rejectReason(uint8(x)); got != want {
			t.Errorf("%d is reason %d, want %d", x, got, want)
		}
	}
	for x := range 256 {
		if again := v20.rejectByte(v20.rejectReason(uint8(x))); again != uint8(x) {
			t.Errorf("%d came back as %d", x, again)
		}
	}
}

func TestProtocol20(t *testing.T) {
	p := New(Options{Version: V20})
	if p.Spec().Name != "riptide-2.0" || p.Spec().Modes != codec.ModesOf(codec.Unreliable, codec.Reliable) {
		t.Errorf("%s with modes %b", p.Spec().Name, p.Spec().Modes)
	}
	for _, c := range []struct {
		what     string
		datagram []byte
		want     bool
	}{
		{"empty", nil, false},
		{"bare Connect", []byte{0x03}, true},
		{"Connect with data", []byte{0x03, 'x'}, true},
		{"Connect of 2.1+", []byte{0x02}, false},
		{"Connect of 2.1+ with data", []byte{0x32}, false},
		{"low nibble only", []byte{0x13}, false},
		{"the largest", append([]byte{0x03}, make([]byte, 1229)...), true},
		{"larger", append([]byte{0x03}, make([]byte, 1230)...), false},
	} {
		if got := p.Sniff(c.datagram); got != c.want {
			t.Errorf("%s: Sniff %v, want %v", c.what, got, c.want)
		}
		conn, _, err := p.Accept(start, address, c.datagram, nil)
		if (conn != nil) != c.want || errors.Is(err, codec.ErrMalformed) == c.want {
			t.Errorf("%s: Accept %v, error %v", c.what, conn, err)
		}
	}
	if got := p.Refuse([]byte{0x03}, nil, codec.ServerFull); hexOf(got) != "0403" {
		t.Errorf("refused by %x", got)
	}
}

func TestServerAdmits20(t *testing.T) {
	c := newServer(t, Options{Version: V20}, "036869")
	if e := wantKinds(t, c, codec.Asked); string(e[0].Payload) != "hi" {
		t.Errorf("asked with %q", e[0].Payload)
	}
	wantSent(t, c, start, "03")
	c.Admit(start, 300)
	wantSent(t, c, start, "0801002c01")
	if err := c.Receive(start, codectest.Unhex(t, "0801002d01")); !errors.Is(err, codec.ErrUnexpected) {
		t.Errorf("Welcome with another ID: %v, want ErrUnexpected", err)
	}
	if err := c.Receive(start, codectest.Unhex(t, "0801002c01")); err != nil {
		t.Errorf("Welcome: %v", err)
	}
	wantKinds(t, c, codec.Connected)
	wantSent(t, c, start, "0101000100")
}

// TestServerRejects20: a Reject is sent once. Between Welcome and the client's answer a Disconnect follows the Reject.
func TestServerRejects20(t *testing.T) {
	for _, c := range []struct {
		why         codec.Goodbye
		reject, bye string
	}{
		{codec.Goodbye{Reason: codec.NoConnection}, "0400", "0604"},
		{codec.Goodbye{Reason: codec.AlreadyConnected}, "0401", "0604"},
		{codec.Goodbye{Reason: codec.ServerFull}, "0403", "0604"},
		{codec.Goodbye{Reason: codec.Rejected}, "0404", "0604"},
		{codec.Goodbye{Reason: codec.RejectedCustom, Data: []byte("afk")}, "040561666b", "060461666b"},
		{codec.Goodbye{Reason: codec.RejectedCustom, Data: make([]byte, 1229)}, "0405", "0604"},
		{codec.Goodbye{Reason: codec.ServerStopped}, "0404", "0605"},
		{codec.Goodbye{Reason: codec.PoorConnection}, "0404", "0602"}, // 2.0 has no such reason
	} {
		for _, admitted := range []bool{false, true} {
			s := newServer(t, Options{Version: V20}, "03")
			want := []string{c.reject}
			if admitted {
				s.Admit(start, 1)
				want = append(want, c.bye)
			}
			codectest.Transmit(s, start)
			s.Close(start, c.why)
			wantSent(t, s, start, want...)
		}
	}
}

// TestClientPending20: a client stops asking after a bare Connect, and after a Reject that says "pending". 2.1+ has no
// such Reject: its 2 is a refusal.
func TestClientPending20(t *testing.T) {
	for _, answer := range []string{"03", "0402"} {
		c := New(Options{Version: V20}).Dial(start, address, codec.Hello{Data: []byte("x")}).(*Conn)
		wantSent(t, c, start, "0378")
		if err := c.Receive(start, codectest.Unhex(t, answer)); err != nil {
			t.Errorf("%s: %v", answer, err)
		}
		if err := c.Receive(start, codectest.Unhex(t, answer)); !errors.Is(err, codec.ErrUnexpected) {
			t.Errorf("%s again: %v, want ErrUnexpected", answer, err)
		}
		now, sent := until(c, start.Add(time.Minute))
		if now.Sub(start) != 10*time.Second || len(sent) != 0 {
			t.Errorf("%s: over after %v, sent %v; want 10 s and nothing", answer, now.Sub(start), sent)
		}
		if e := wantKinds(t, c, codec.Disconnected); e[0].Reason != codec.TimedOut {
			t.Errorf("%s: over for %v", answer, e[0].Reason)
		}
	}
}

func TestClientWelcomed20(t *testing.T) {
	c := New(Options{Version: V20}).Dial(start, address, codec.Hello{}).(*Conn)
	codectest.Transmit(c, start)
	if err := c.Receive(start, codectest.Unhex(t, "0801000200")); err != nil {
		t.Fatal(err)
	}
	if e := wantKinds(t, c, codec.Connected); e[0].Client != 2 {
		t.Errorf("is client %d, want 2", e[0].Client)
	}
	wantSent(t, c, start, "0101000100", "0801000200")
	if err := c.Receive(start, codectest.Unhex(t, "0403")); !errors.Is(err, codec.ErrUnexpected) {
		t.Errorf("Reject of a connected client: %v, want ErrUnexpected", err)
	}
	c.Close(start, codec.Goodbye{Reason: codec.Closed})
	wantSent(t, c, start, "06")
}

// TestSizes20: a datagram of 1231 bytes or more is neither sent nor received, because it ends the peer's process.
func TestSizes20(t *testing.T) {
	p := newPair(t, Options{Version: V20})
	big := make([]byte, 1300)
	for _, c := range []struct {
		mode    codec.Mode
		largest int
	}{{codec.Reliable, 1225}, {codec.Unreliable, 1227}} {
		m := codec.Message{Mode: c.mode, ID: 65535, HasID: true, Payload: big[:c.largest+1], Pad: 7}
		if err := p.client.Send(p.now, m); !errors.Is(err, codec.ErrTooLarge) {
			t.Errorf("%v of %d bytes: %v, want ErrTooLarge", c.mode, len(m.Payload), err)
		}
		m.Payload = big[:c.largest]
		if err := p.client.Send(p.now, m); err != nil {
			t.Errorf("%v of %d bytes: %v", c.mode, len(m.Payload), err)
		}
		if sent := codectest.Transmit(p.client, p.now); len(sent) != 1 || len(sent[0]) != 1230 {
			t.Errorf("%v of %d bytes: %d datagrams %x", c.mode, len(m.Payload), len(sent), sent)
		}
	}
	for size := 1225; size < len(big); size++ {
		s := newPair(t, Options{Version: V20}).server
		s.Close(start, codec.Goodbye{Reason: codec.Kicked, Data: big[:size]})
		for _, d := range codectest.Transmit(s, start) {
			if len(d) > 1230 {
				t.Errorf("goodbye with %d bytes of data made a datagram of %d", size, len(d))
			}
		}
	}
	c := New(Options{Version: V20}).Dial(start, address, codec.Hello{Data: big[:1230]})
	wantKinds(t, c, codec.Disconnected)
	wantSent(t, c, start)
	if err := p.server.Receive(p.now, big[:1231]); !errors.Is(err, codec.ErrMalformed) {
		t.Errorf("datagram of 1231 bytes: %v, want ErrMalformed", err)
	}
}

// TestSend20: Riptide 2.0 has whole bytes and no notify messages.
func TestSend20(t *testing.T) {
	p := newPair(t, Options{Version: V20})
	if err := p.client.Send(p.now, codec.Message{Mode: codec.Notify}); !errors.Is(err, codec.ErrMode) {
		t.Errorf("notify: %v, want ErrMode", err)
	}
	m := codec.Message{Payload: []byte{0xff}, Pad: 4, ID: 0x0102, HasID: true}
	for _, m.Mode = range []codec.Mode{codec.Unreliable, codec.Reliable} {
		if err := p.client.Send(p.now, m); err != nil {
			t.Fatal(err)
		}
	}
	wantSent(t, p.client, p.now, "000201ff", "0702000201ff")
}

func TestMalformed20(t *testing.T) {
	p := newPair(t, Options{Version: V20})
	for _, c := range []struct {
		what, datagram string
		want           error
	}{
		{"short Ack", "01010001", codec.ErrMalformed},
		{"short AckExtra", "020100010003", codec.ErrMalformed},
		{"AckExtra like an Ack", "0201000100", codec.ErrMalformed},
		{"short Heartbeat", "0500ff", codec.ErrMalformed},
		{"Reliable without number", "0702", codec.ErrMalformed},
		{"Unreliable without ID", "0001", codec.ErrMalformed},
		{"Reject from a client", "0403", codec.ErrUnexpected},
		{"Connect again", "03", codec.ErrDuplicate},
		{"leap of a number", "0700110100", codec.ErrWindow},
	} {
		if err := p.server.Receive(p.now, codectest.Unhex(t, c.datagram)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
	}
	wantKinds(t, p.server)
	wantSent(t, p.server, p.now)
	if err := p.client.Receive(p.now, []byte{0x06}); !errors.Is(err, codec.ErrMalformed) {
		t.Errorf("Disconnect without reason: %v, want ErrMalformed", err)
	}
}

// TestStrangeTypes20: every type from 7 on is reliable. Unknown ones are acknowledged and dropped, as the library
// does.
func TestStrangeTypes20(t *testing.T) {
	p := newPair(t, Options{Version: V20})
	for x := 11; x < 256; x++ {
		d := []byte{byte(x), 2, 0, 1, 0}
		if err := p.server.Receive(p.now, d); err == nil {
			t.Errorf("type %d: no error", x)
		}
		wantSent(t, p.server, p.now, "0102000300")
	}
	wantKinds(t, p.server)
}

// TestHelloAndGoodbyeBytes20: connect data, messages and refusals pass as unchanged bytes.
func TestHelloAndGoodbyeBytes20(t *testing.T) {
	p := New(Options{Version: V20})
	for size := range 40 {
		data := bytes.Repeat([]byte{0xf0}, size)
		dialled := p.Dial(start, address, codec.Hello{Data: data, Pad: 4})
		connect := codectest.Transmit(dialled, start)[0]
		conn, _, err := p.Accept(start, address, connect, nil)
		if err != nil {
			t.Fatal(err)
		}
		if e := wantKinds(t, conn, codec.Asked)[0]; !bytes.Equal(e.Payload, data) || e.Pad != 0 {
			t.Errorf("asked with %x pad %d, want %x", e.Payload, e.Pad, data)
		}
		codectest.Transmit(conn, start)
		conn.Close(start, codec.Goodbye{Reason: codec.RejectedCustom, Data: data})
		if err := dialled.Receive(start, codectest.Transmit(conn, start)[0]); err != nil {
			t.Fatal(err)
		}
		if e := wantKinds(t, dialled, codec.Disconnected)[0]; !bytes.Equal(e.Payload, data) || e.Pad != 0 {
			t.Errorf("refused with %x pad %d, want %x", e.Payload, e.Pad, data)
		}
	}
}
