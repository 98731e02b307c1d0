package enet

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// forge returns a datagram of a forger who guesses the IDs and numbers of a session: goodbyes, settings, messages and
// acknowledgements.
func forge(rng *rand.Rand, _ bool) []byte {
	guess := func() uint16 {
		if rng.IntN(2) == 0 {
			return uint16(rng.IntN(300))
		}
		return uint16(rng.Uint32())
	}
	h := header{
		peer: uint16(rng.IntN(maxID + 1)), session: uint8(rng.IntN(4)), timed: true, time: uint16(rng.Uint32()),
	}
	b := h.append(nil)
	for range 1 + rng.IntN(4) {
		b = appendForged(b, rng, guess)
	}
	return b
}

func appendForged(b []byte, rng *rand.Rand, guess func() uint16) []byte {
	switch rng.IntN(5) {
	case 0:
		return be.AppendUint32(appendCommand(b, kindDisconnect, flagAck, controlChannel, guess()), 7)
	case 1:
		b = appendCommand(b, kindBandwidth, flagAck, controlChannel, guess())
		return append(b, 0, 0, 0, 1, 0, 0, 0, 1)
	case 2:
		b = appendCommand(b, kindAck, 0, uint8(rng.IntN(2)), guess())
		return be.AppendUint16(be.AppendUint16(b, guess()), guess())
	case 3:
		return appendCommand(b, kindPing, flagAck, controlChannel, guess())
	}
	return append(appendCommand(b, kindReliable, flagAck, uint8(rng.IntN(2)), guess()), 0, 3, 1, 2, 3)
}

// TestForgedGoodbye gives a session without checksums a goodbye with correct IDs and numbers. The session lives while
// its peer answers, and ends when the peer is silent.
func TestForgedGoodbye(t *testing.T) {
	for _, silent := range []bool{false, true} {
		now, conns := joined(t)
		b := appendCommand(forgedHead(now, conns), kindDisconnect, flagAck, controlChannel, conns[0].peerControl+1)
		if err := conns[0].Receive(now, be.AppendUint32(b, 7)); err != nil {
			t.Fatal(err)
		}
		over := time.Duration(0)
		for at := time.Duration(0); at < 4*time.Second && over == 0; at += 10 * time.Millisecond {
			for _, c := range conns {
				c.Advance(now.Add(at))
			}
			if silent {
				codectest.Transmit(conns[0], now.Add(at))
			} else {
				exchange(now.Add(at), conns)
			}
			if conns[0].state == closed {
				over = at
			}
		}
		if silent != (over > 0) || over > 2*time.Second {
			t.Errorf("silent %v: over after %v", silent, over)
		}
	}
}

// TestForgedSettings gives a session an old bandwidth and an acknowledgement that echoes another time. Neither counts.
func TestForgedSettings(t *testing.T) {
	now, conns := joined(t)
	c := conns[0]
	window := c.window
	b := appendCommand(forgedHead(now, conns), kindBandwidth, flagAck, controlChannel, c.peerControl-5)
	_ = c.Receive(now, append(b, 0, 0, 0, 1, 0, 0, 0, 1))
	if c.window != window {
		t.Errorf("the window is %d, want %d", c.window, window)
	}
	if err := c.Send(now, codec.Message{Mode: codec.ReliableOrdered, Payload: []byte("x"), Receipt: 1}); err != nil {
		t.Fatal(err)
	}
	codectest.Transmit(c, now)
	number := c.outChannels[0].reliable
	b = appendCommand(forgedHead(now, conns), kindAck, 0, 0, number)
	_ = c.Receive(now, be.AppendUint16(be.AppendUint16(b, number), c.clock(now)-1000))
	if events := codectest.Drain(c); len(events) > 0 {
		t.Errorf("a forged acknowledgement causes %v", codectest.Kinds(events))
	}
}

// joined returns a server and a client in session.
func joined(t *testing.T) (time.Time, [2]*Conn) {
	t.Helper()
	now := start
	client := New(seeded(2, Options{})).Dial(now, netip.AddrPort{}, codec.Hello{}).(*Conn)
	first, _ := client.Transmit(now, nil)
	accepted, _, err := New(seeded(1, Options{})).Accept(now, netip.AddrPort{}, first, nil)
	if err != nil {
		t.Fatal(err)
	}
	server := accepted.(*Conn)
	server.Admit(now, 1)
	conns := [2]*Conn{server, client}
	exchange(now, conns)
	return now, conns
}

// forgedHead is the header of a datagram of the client.
func forgedHead(now time.Time, conns [2]*Conn) []byte {
	h := header{peer: conns[0].secrets.id, session: conns[0].sessionIn, timed: true, time: conns[1].clock(now)}
	return h.append(nil)
}
