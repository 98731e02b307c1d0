package enet

import (
	"bytes"
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
	return forgeWith(rng, func() uint16 {
		if rng.IntN(2) == 0 {
			return uint16(rng.IntN(300))
		}
		return uint16(rng.Uint32())
	})
}

// forgeNear is forge with numbers of a session of 10 messages a second in each mode.
func forgeNear(rng *rand.Rand, _ bool) []byte {
	return forgeWith(rng, func() uint16 { return uint16(rng.IntN(1000)) })
}

// mostForgedLoss bounds the losses by a forger who does not know the IDs.
func mostForgedLoss(m codec.Mode, _ float64) float64 {
	if m.IsReliable() {
		return 0
	}
	return .005
}

func forgeWith(rng *rand.Rand, guess func() uint16) []byte {
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
	switch rng.IntN(8) {
	case 7:
		b = appendCommand(b, kindUnreliable, 0, uint8(rng.IntN(2)), guess())
		return append(be.AppendUint16(b, guess()), 0, 3, 1, 2, 3)
	case 6:
		b = appendCommand(b, kindUnsequenced, flagUnsequenced, uint8(rng.IntN(2)), guess())
		return append(be.AppendUint16(b, guess()), 0, 3, 1, 2, 3)
	case 5:
		f := fragment{start: guess(), count: 1 + rng.Uint32N(4), total: 40}
		for n := 1 + rng.IntN(4); n > 0 && f.index < f.count; n-- {
			b = appendPart(b, f, min(10, int(f.total-f.offset)))
			f.index, f.offset = f.index+1, f.offset+10
		}
		return b
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
// its peer answers, and ends when the peer is silent. A time in which the process stands still is no silence.
func TestForgedGoodbye(t *testing.T) {
	for _, c := range []struct {
		silent bool
		stop   time.Duration
	}{{silent: false}, {silent: true}, {stop: time.Second}, {silent: true, stop: time.Second}} {
		now, conns := joined(t)
		b := appendCommand(forgedHead(now, conns), kindDisconnect, flagAck, controlChannel, conns[0].peerControl+1)
		if err := conns[0].Receive(now, be.AppendUint32(b, 7)); err != nil {
			t.Fatal(err)
		}
		now = now.Add(c.stop)
		over := time.Duration(0)
		for at := time.Duration(0); at < 4*time.Second && over == 0; at += 10 * time.Millisecond {
			for _, c := range conns {
				c.Advance(now.Add(at))
			}
			if c.silent {
				codectest.Transmit(conns[0], now.Add(at))
			} else {
				exchange(now.Add(at), conns)
			}
			if conns[0].state == closed {
				over = at
			}
		}
		if c.silent != (over > 0) || over > 2*time.Second {
			t.Errorf("%+v: over after %v", c, over)
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
	number := c.outChannels[0].Reliable
	b = appendCommand(forgedHead(now, conns), kindAck, 0, 0, number)
	_ = c.Receive(now, be.AppendUint16(be.AppendUint16(b, number), c.clock(now)-1000))
	if events := codectest.Drain(c); len(events) > 0 {
		t.Errorf("a forged acknowledgement causes %v", codectest.Kinds(events))
	}
}

// joined returns a server and a client in session.
func joined(t *testing.T) (time.Time, [2]*Conn) {
	t.Helper()
	return joinedBy(t, Options{})
}

func joinedBy(t *testing.T, o Options) (time.Time, [2]*Conn) {
	t.Helper()
	now := start
	client := New(seeded(2, o)).Dial(now, netip.AddrPort{}, codec.Hello{}).(*Conn)
	first, _ := client.Transmit(now, nil)
	accepted, _, err := New(seeded(1, o)).Accept(now, netip.AddrPort{}, first, nil)
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
	h := header{peer: conns[0].secrets.ID, session: conns[0].sessionIn, timed: true, time: conns[1].clock(now)}
	return h.append(nil)
}

// forgedParts are commands of a forger that has guessed the next number of channel 0, and the IDs.
var forgedParts = map[string]func(b []byte, next uint16) []byte{
	"a part of another message": func(b []byte, next uint16) []byte {
		return appendPart(b, fragment{start: next, count: 3, index: 1, total: 300, offset: 100}, 100)
	},
	"a part with the same shape": func(b []byte, next uint16) []byte {
		room := uint32(fragmentRoom(defaultMTU, false))
		return appendPart(b, fragment{start: next, count: 3, index: 1, total: 2*room + 10, offset: room}, int(room))
	},
	"a part at a wrong place": func(b []byte, next uint16) []byte {
		room := uint32(fragmentRoom(defaultMTU, false))
		return appendPart(b, fragment{start: next, count: 3, index: 1, total: 2*room + 10, offset: 5}, 100)
	},
	"a message": func(b []byte, next uint16) []byte {
		return append(appendCommand(b, kindReliable, flagAck, 0, next), 0, 3, 1, 2, 3)
	},
	"an early message": func(b []byte, next uint16) []byte {
		return append(appendCommand(b, kindReliable, flagAck, 0, next+1), 0, 3, 1, 2, 3)
	},
	"all parts of a message": func(b []byte, next uint16) []byte {
		for i := range uint32(20) {
			b = appendPart(b, fragment{start: next, count: 20, index: i, total: 20, offset: i}, 1)
		}
		return b
	},
	"an early part": func(b []byte, next uint16) []byte {
		return appendPart(b, fragment{start: next + 2, count: 5, index: 0, total: 500}, 100)
	},
	"a part that began before": func(b []byte, next uint16) []byte {
		return appendPart(b, fragment{start: next - 1, count: 5, index: 1, total: 500, offset: 100}, 100)
	},
}

func appendPart(b []byte, f fragment, payload int) []byte {
	b = f.append(appendCommand(b, kindFragment, flagAck, 0, f.start+uint16(f.index)), payload)
	return append(b, make([]byte, payload)...)
}

// TestForgedParts gives a session a forged command at each moment of a conversation with whole messages and messages in
// parts. All messages of the peer arrive exactly once, in time, and nothing stays behind.
func TestForgedParts(t *testing.T) {
	for name, forged := range forgedParts {
		t.Run(name, func(t *testing.T) {
			for at := range 14 {
				forgedPart(t, at, forged)
			}
		})
	}
}

// forgedPart injects forged commands before a datagram of the client's.
func forgedPart(t *testing.T, at int, forged func(b []byte, next uint16) []byte) {
	t.Helper()
	now, conns := joined(t)
	arrived := make(map[string]int)
	var sent []string
	for i := range 10 {
		size := 20
		if i%3 == 1 {
			size = 2*fragmentRoom(defaultMTU, false) + 10
		}
		payload := bytes.Repeat([]byte{byte(100 + i)}, size)
		m := codec.Message{Mode: codec.ReliableOrdered, Payload: payload}
		if err := conns[1].Send(now, m); err != nil {
			t.Fatal(err)
		}
		sent = append(sent, string(payload))
	}
	datagrams := 0
	for step := range 400 {
		now = now.Add(10 * time.Millisecond)
		for i, c := range conns {
			c.Advance(now)
			for _, d := range codectest.Transmit(c, now) {
				if i == 1 {
					if datagrams++; datagrams == at+1 {
						b := forged(forgedHead(now, conns), conns[0].in.channel(0).reliable+1)
						_ = conns[0].Receive(now, b)
						hear(conns[0], arrived)
					}
				}
				_ = conns[1-i].Receive(now, d)
				hear(conns[0], arrived)
			}
		}
		if step == 100 {
			for _, payload := range sent {
				if arrived[payload] != 1 {
					t.Errorf("before datagram %d: a message of %d bytes arrived %d times", at, len(payload), arrived[payload])
				}
			}
		}
	}
	if conns[0].state != connected || conns[1].state != connected {
		t.Errorf("before datagram %d: the session has ended", at)
	}
	codectest.Drain(conns[1])
}

func hear(c *Conn, arrived map[string]int) {
	for e, ok := c.Poll(); ok; e, ok = c.Poll() {
		if e.Kind == codec.Received {
			arrived[string(e.Payload)]++
		}
	}
}
