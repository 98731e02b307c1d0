package raknet

import (
	"bytes"
	"errors"
	"runtime"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// hostile is a client that has finished its handshake and then sends messages of a dishonest peer.
type hostile struct {
	*link
	number, reliable Seq24
}

func newHostile(t *testing.T, o Options) *hostile {
	l := newConnected(t, o)
	h := &hostile{link: l, number: l.server.receiver.datagrams.next, reliable: l.server.receiver.reliable.base}
	return h
}

// inject sends capsules in one datagram, in sequence.
func (h *hostile) inject(capsules ...capsule) error {
	b := appendDataHeader(nil, h.number, false, false)
	for i := range capsules {
		b = capsules[i].append(b)
	}
	h.number = h.number.Add(1)
	return h.sayRaw(b)
}

func (h *hostile) sayRaw(b []byte) error {
	err := h.server.Receive(h.now, b)
	h.poll()
	return err
}

// next numbers a reliable capsule.
func (h *hostile) next(c capsule) capsule {
	c.reliable, h.reliable = h.reliable, h.reliable.Add(1)
	return c
}

// TestHostileSessionIsBounded attacks the memory of a session in each known way, and measures the memory kept.
func TestHostileSessionIsBounded(t *testing.T) {
	o := Options{MaxMTU: 400, MaxAssembly: 1 << 20, MaxHeld: 512 << 10}
	most := uint64(o.MaxHeld + 3*o.MaxAssembly + 1<<20)
	large := gamePayload(3000)
	for _, attack := range []struct {
		name  string
		round func(h *hostile, i int)
	}{
		{"split messages never finished", func(h *hostile, i int) {
			_ = h.inject(h.next(capsule{mode: codec.Reliable, split: true, splitCount: 1000, splitID: uint16(i),
				splitIndex: 1, payload: large[:300]}))
		}},
		{"parts larger than the path carries", func(h *hostile, i int) {
			_ = h.inject(h.next(capsule{mode: codec.Reliable, split: true, splitCount: 2000, splitIndex: uint32(i % 2000),
				payload: large}))
		}},
		{"split messages finished ahead of their turn", func(h *hostile, i int) {
			_ = h.inject(h.next(capsule{mode: codec.ReliableOrdered, order: Seq24(5 + i/1000), split: true, splitCount: 1000,
				splitID: uint16(i / 1000), splitIndex: uint32(i % 1000), payload: large[:300]}))
		}},
		{"ordered messages ahead of their turn", func(h *hostile, i int) {
			channel := uint8(i % 32)
			_ = h.inject(h.next(capsule{mode: codec.ReliableOrdered, channel: channel, order: Seq24(5 + i), payload: large}))
		}},
		{"sequenced messages ahead of their turn", func(h *hostile, i int) {
			_ = h.inject(capsule{mode: codec.UnreliableSequenced, order: Seq24(1 + i), payload: large[:1]})
		}},
		{"every other datagram missing", func(h *hostile, _ int) {
			h.number = h.number.Add(1)
			_ = h.inject(capsule{mode: codec.Unreliable, payload: large[:1]})
		}},
		{"every other reliable number missing", func(h *hostile, _ int) {
			h.reliable = h.reliable.Add(1)
			_ = h.inject(h.next(capsule{mode: codec.Reliable, payload: large[:1]}))
		}},
		{"pings", func(h *hostile, i int) {
			ping := connectedPing{time: uint64(i)}
			_ = h.inject(h.next(capsule{mode: codec.Reliable, payload: ping.append(nil)}))
		}},
		{"requests for the connection", func(h *hostile, i int) {
			request := connectionRequest{guid: 77, password: large}
			_ = h.inject(h.next(capsule{mode: codec.Reliable, payload: request.append(nil)}))
			_ = h.sayRaw(request2Of(h.p, h.now, 77))
		}},
		{"random numbers", func(h *hostile, i int) {
			h.number, h.reliable = Seq24(i*7919*2654435), Seq24(i*104729*2654435)
			_ = h.inject(h.next(capsule{mode: codec.ReliableOrdered, order: Seq24(i * 15485863), payload: large}))
		}},
	} {
		h := newHostile(t, o)
		before := heapInUse()
		for i := range 20_000 {
			attack.round(h, i)
			h.toServer = h.toServer[:0]
		}
		after := heapInUse()
		if kept := after - min(before, after); kept > most {
			t.Errorf("%s: %d bytes kept, want at most %d", attack.name, kept, most)
		} else {
			t.Logf("%s: %d kB kept", attack.name, kept>>10)
		}
		if held := uint64(h.server.Stats().Held); after > before+held+uncountedBytes {
			t.Errorf("%s: %d bytes kept, and only %d counted", attack.name, after-before, held)
		}
		runtime.KeepAlive(h)
		h.liveOn(unfinishedPatience + o.withDefaults().Timeout)
		if held := h.server.Stats().Held; held != 0 || h.server.phase != connected {
			t.Errorf("%s: %d bytes are held in phase %d after the time of an unfinished message", attack.name, held,
				h.server.phase)
		}
	}
}

// uncountedBytes bounds the memory of a session that Stats.Held does not count: tables of numbers and spare buffers.
const uncountedBytes = 1 << 20

// liveOn lets time pass in which the client only shows that it is there.
func (h *hostile) liveOn(d time.Duration) {
	h.number, h.reliable = h.server.receiver.datagrams.next, h.server.receiver.reliable.base
	for end := h.now.Add(d); h.now.Before(end); {
		h.now = h.now.Add(time.Second)
		ping := connectedPing{time: uint64(h.number)}
		_ = h.inject(capsule{mode: codec.Unreliable, payload: ping.append(nil)})
		h.server.Advance(h.now)
		h.poll()
		for _, ok := h.server.Transmit(h.now, nil); ok; _, ok = h.server.Transmit(h.now, nil) {
		}
	}
}

// TestUnfinishedMessagesExpire checks that messages with a missing part, and messages behind a missing one, are given
// up. The messages that did come are passed on in their order, and the session goes on.
func TestUnfinishedMessagesExpire(t *testing.T) {
	h := newHostile(t, Options{})
	part := gamePayload(300)
	for i := range Seq24(3) { // order 0 never comes
		early := capsule{mode: codec.ReliableOrdered, channel: 5, order: 1 + i, payload: gamePayload(10 + int(i))}
		_ = h.inject(h.next(early))
	}
	_ = h.inject(h.next(capsule{mode: codec.Reliable, split: true, splitCount: 3, splitID: 1, payload: part}))
	if h.server.Stats().Held == 0 {
		t.Fatal("nothing is held")
	}
	h.liveOn(unfinishedPatience - 2*time.Second)
	if h.server.Stats().Held == 0 || len(h.toServer) > 0 {
		t.Fatalf("%d messages too early", len(h.toServer))
	}
	h.liveOn(4 * time.Second)
	if held := h.server.Stats().Held; held != 0 {
		t.Errorf("%d bytes are held", held)
	}
	if n := len(h.toServer); n != 3 || len(h.toServer[0].Payload) != 10 || len(h.toServer[2].Payload) != 12 {
		t.Errorf("%d messages were passed on, want the 3 that waited", n)
	}
	_ = h.inject(h.next(capsule{mode: codec.ReliableOrdered, channel: 5, order: 4, payload: gamePayload(20)}))
	if n := len(h.toServer); n != 4 || h.server.phase != connected {
		t.Errorf("%d messages after another one, in phase %d", n, h.server.phase)
	}
}

// TestAcknowledgementsOfEverything acknowledges the whole 24-bit space to a session, forwards and across the
// wrap-around.
func TestAcknowledgementsOfEverything(t *testing.T) {
	for _, r := range []ackRange{{0, seq24Mask}, {0, 1 << 23}, {1 << 23, seq24Mask}} {
		for _, kind := range []datagramKind{ackDatagram, nackDatagram} {
			h := newHostile(t, Options{})
			h.drop = func(bool, []byte) bool { return true }
			h.send(h.server, codec.Reliable, 20, 9)
			h.exchange()
			h.drop = nil
			w := beginAcks(nil, kind, codec.MaxDatagram)
			for w.add(r) {
			}
			_ = h.sayRaw(w.end())
			h.wait(100 * ms)
			if has(h.toServer, codec.Disconnected) {
				t.Errorf("kind %v of %v ends the session", kind, r)
			}
		}
	}
}

// TestInvalidCapsulesEndNothing: malformed capsules are refused and counted, and the session continues.
func TestInvalidCapsulesEndNothing(t *testing.T) {
	for _, test := range []struct{ name, hex string }{
		{"no bits", "000000" + "86"},
		{"no bits, reliable", "400000" + "000000" + "00"},
		{"more bits than bytes", "00ffff" + "aabb"},
		{"channel 32", "600008" + "000000" + "000000" + "20" + "86"},
		{"channel 255", "600008" + "000000" + "000000" + "ff" + "86"},
		{"a split of no parts", "500008" + "090000" + "00000000" + "0000" + "00000000" + "86"},
		{"a split of one part", "500008" + "090000" + "00000001" + "0000" + "00000000" + "86"},
		{"part beyond the last", "500008" + "090000" + "00000002" + "0000" + "00000002" + "86"},
		{"an unreliable part", "100008" + "00000002" + "0000" + "00000000" + "86"},
	} {
		h := newHostile(t, Options{})
		dropped := h.server.Stats().Dropped
		b := append(appendDataHeader(nil, h.number, false, false), codectest.Unhex(t, test.hex)...)
		if err := h.sayRaw(b); !errors.Is(err, codec.ErrMalformed) {
			t.Errorf("%s: %v, want ErrMalformed", test.name, err)
		}
		if len(h.toServer) > 0 || h.server.Stats().Dropped == dropped {
			t.Errorf("%s: saw %v, %d dropped", test.name, codectest.Kinds(h.toServer), h.server.Stats().Dropped-dropped)
		}
		h.number = h.number.Add(1)
		err := h.inject(h.next(capsule{mode: codec.Reliable, payload: gamePayload(8)}))
		if err != nil || !has(h.toServer, codec.Received) {
			t.Errorf("%s: the next message: %v", test.name, err)
		}
	}
}

// TestSplitWithinASplit joins parts whose content looks like a part of another message. It belongs to the game, and is
// not interpreted.
func TestSplitWithinASplit(t *testing.T) {
	h := newHostile(t, Options{})
	inner := capsule{mode: codec.Reliable, split: true, splitCount: 2, splitID: 1, payload: gamePayload(40)}
	wire := append([]byte{0x86}, inner.append(nil)...)
	for i, part := range [][]byte{wire[:20], wire[20:]} {
		if err := h.inject(h.next(capsule{mode: codec.Reliable, split: true, splitCount: 2, splitID: 1,
			splitIndex: uint32(i), payload: part})); err != nil {
			t.Fatal(err)
		}
	}
	if len(h.toServer) != 1 || !bytes.Equal(h.toServer[0].Payload, wire) || len(h.server.receiver.splits.open) > 0 {
		t.Errorf("saw %v, %d incomplete", codectest.Kinds(h.toServer), len(h.server.receiver.splits.open))
	}
}

// TestProbesOfEverySize: the answer to a first request is shorter than the request, or absent, and no state is kept.
func TestProbesOfEverySize(t *testing.T) {
	p := New(Options{})
	whole := openConnectionRequest1{version: 6, length: codec.MaxDatagram}
	wire := whole.append(nil)
	for n := range len(wire) + 1 {
		conn, reply, err := p.Accept(linkStart, linkClient, wire[:n], nil)
		answered := len(reply) > 0
		if conn != nil || len(reply) > n || answered != (n+udpOverhead >= 400) || answered != (err == nil) {
			t.Fatalf("%d bytes: conn %v, answered by %d bytes, %v", n, conn, len(reply), err)
		}
	}
}
