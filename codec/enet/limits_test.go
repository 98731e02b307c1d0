package enet

import (
	"errors"
	"net/netip"
	"testing"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// TestProofNeedsTheTime: an acknowledgement of VerifyConnect with the correct IDs proves an address only if it echoes a
// time of ours and the number.
func TestProofNeedsTheTime(t *testing.T) {
	client := New(seeded(2, Options{})).Dial(start, netip.AddrPort{}, codec.Hello{})
	first, _ := client.Transmit(start, nil)
	accepted, _, err := New(seeded(1, Options{})).Accept(start, netip.AddrPort{}, first, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := accepted.(*Conn)
	c.Admit(start, 1)
	codectest.Transmit(c, start)
	number, clock := c.control.Reliable, c.clock(start)
	for _, test := range []struct {
		number, clock uint16
		proves        bool
	}{{number, clock + 1, false}, {number, clock - 1, false}, {number + 1, clock, false}, {number, clock, true}} {
		h := header{peer: c.secrets.ID, session: c.sessionIn}
		b := appendCommand(h.append(nil), kindAck, 0, controlChannel, test.number)
		_ = c.Receive(start, be.AppendUint16(be.AppendUint16(b, test.number), test.clock))
		if c.state == connected != test.proves {
			t.Errorf("number %d, time %d: state %v", test.number-number, int16(test.clock-clock), c.state)
		}
	}
}

// TestVerifyNeedsTheConnectID: a client ignores a VerifyConnect with another connect ID.
func TestVerifyNeedsTheConnectID(t *testing.T) {
	client := New(seeded(2, Options{})).Dial(start, netip.AddrPort{}, codec.Hello{}).(*Conn)
	first, _ := client.Transmit(start, nil)
	accepted, _, _ := New(seeded(1, Options{})).Accept(start, netip.AddrPort{}, first, nil)
	accepted.Admit(start, 1)
	verify, _ := accepted.Transmit(start, nil)
	at := len(verify) - 4 // the connect ID comes last
	for _, change := range []byte{1, 0} {
		forged := append([]byte(nil), verify...)
		forged[at] ^= change
		_ = client.Receive(start, forged)
		if (client.state == connected) != (change == 0) {
			t.Errorf("changed by %d: state %v", change, client.state)
		}
	}
}

// TestChannelBeyondGrant: a message on a channel that the peer does not have travels on channel 0.
func TestChannelBeyondGrant(t *testing.T) {
	now, conns := joined(t)
	conns[1].channels = 2
	for _, m := range []codec.Mode{codec.ReliableOrdered, codec.UnreliableSequenced, codec.Unreliable} {
		if err := conns[1].Send(now, codec.Message{Mode: m, Channel: 9, Payload: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range codectest.Transmit(conns[1], now) {
		_ = conns[0].Receive(now, d)
	}
	events := codectest.Drain(conns[0])
	if len(events) != 3 {
		t.Errorf("received %v, want 3 messages", codectest.Kinds(events))
	}
	for _, e := range events {
		if e.Channel != 0 {
			t.Errorf("a %v message came on channel %d, want 0", e.Mode, e.Channel)
		}
	}
}

// TestUnreliableNumbersRunOut: a channel has no number left for a message, which becomes reliable. Its datagram has a
// time then, and no message is lost.
func TestUnreliableNumbersRunOut(t *testing.T) {
	now, conns := joined(t)
	conns[1].outChannel(0).Unreliable = 1<<16 - 3
	conns[0].in.channel(0).unreliable = 1<<16 - 3
	const count = 6
	for i := range byte(count) {
		m := codec.Message{Mode: codec.UnreliableSequenced, Payload: []byte{i}}
		if err := conns[1].Send(now, m); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range codectest.Transmit(conns[1], now) {
		if err := conns[0].Receive(now, d); err != nil {
			t.Errorf("%x: %v", d, err)
		}
	}
	if events := codectest.Drain(conns[0]); len(events) != count {
		t.Errorf("%d of %d messages arrived", len(events), count)
	}
}

// TestHeldBytesAreBounded: early messages of a peer reach the bound, and no more.
func TestHeldBytesAreBounded(t *testing.T) {
	now, conns := joined(t)
	refused := 0
	for n := range uint16(2 * maxHeld / 1000) {
		b := appendCommand(forgedHead(now, conns), kindReliable, flagAck, 0, 2+n)
		if conns[0].Receive(now, append(be.AppendUint16(b, 1000), make([]byte, 1000)...)) != nil {
			refused++
		}
		codectest.Drain(conns[0])
		codectest.Transmit(conns[0], now)
	}
	if held := conns[0].in.held; held > maxHeld || held < maxHeld/2 || refused == 0 {
		t.Errorf("%d bytes held, %d messages refused", held, refused)
	}
}

// TestFragmentsBringTheirBytes refuses fragments that are whole messages of more bytes than they bring, of both kinds,
// with checksums and without.
func TestFragmentsBringTheirBytes(t *testing.T) {
	for _, checks := range []Checksums{ChecksumsOff, ChecksumsOn} {
		for k, total := range map[kind]uint32{kindFragment: 1 << 20, kindUnreliableFragment: maxUnreliable} {
			now, conns := joinedBy(t, Options{Checksums: checks})
			codectest.Drain(conns[0])
			c := conns[1]
			h := header{peer: c.peer, session: c.sessionOut, timed: true, time: c.clock(now)}
			b, place := c.appendHeader(nil, &h)
			f := fragment{start: 1, count: 1, total: total}
			b = append(f.append(appendCommand(b, k, flagAck, 0, 1), 1), 'x')
			if err := conns[0].Receive(now, c.sum(b, place, false)); !errors.Is(err, codec.ErrMalformed) {
				t.Errorf("kind %v, checksums %v: %v", k, checks, err)
			}
			if all := codectest.Drain(conns[0]); len(all) != 0 {
				t.Errorf("kind %v, checksums %v: %d events", k, checks, len(all))
			}
		}
	}
}
