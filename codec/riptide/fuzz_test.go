package riptide

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"tidegate/codec"
)

// addCaptured seeds a fuzz target with a datagram of each type.
func addCaptured(f *testing.F) {
	for _, h := range []string{
		"10a005", "1100100000", "4100f000700000", "8207", "432016e6e65646a60352e74697c6062203330303", "04f0ff0f", "0400",
		"05", "451066b606", "060000100000000000a0f70aaa3e2d868903", "27001000000000a0f70aaa0e", "1800100000",
		"2900200000", "3a00200000", "fb00200000",
	} {
		f.Add(unhex(f, h))
	}
}

// maxFuzzed bounds the bytes of one dialogue: longer ones only take longer.
const maxFuzzed = 2000

// FuzzReceive cuts data into datagrams and gives them to both sides in every state. Whatever they are, nothing panics,
// the contract's order of events holds, and memory stays bounded.
func FuzzReceive(f *testing.F) {
	addCaptured(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > maxFuzzed {
			return
		}
		for _, make := range fuzzStates {
			c := make()
			now := start
			watch := watcher{t: t, c: c}
			watch.drain()
			for rest := data; len(rest) > 0; {
				n := min(int(rest[0]>>3)+1, len(rest))
				now = now.Add(time.Duration(rest[0]&7) * 40 * time.Millisecond)
				_ = c.Receive(now, bytes.Clone(rest[:n])) // most are refused
				watch.drain()
				rest = rest[n:]
				c.Advance(now)
				watch.drain()
				_ = c.Send(now, codec.Message{Mode: codec.Reliable, Payload: data[:min(len(data), 9)]})
				_ = c.Send(now, codec.Message{Mode: codec.Notify, Receipt: 1})
				transmit(c, now)
			}
			if q := c.queued(); q > c.options.MaxQueued {
				t.Errorf("%d bytes queued", q)
			}
			c.Close(now, codec.Goodbye{Reason: codec.Closed, Data: data})
			watch.drain()
			transmit(c, now)
			if !watch.over {
				t.Error("not disconnected after Close")
			}
		}
	})
}

// fuzzStates make a Conn in each state.
var fuzzStates = []func() *Conn{
	func() *Conn { return New(Options{}).Dial(start, address, codec.Hello{}).(*Conn) },
	func() *Conn { return clientAfter([]byte{0x02}) },
	func() *Conn { return clientAfter([]byte{0x18, 0, 0x10, 0, 0}) },
	func() *Conn { return accept(New(Options{}), start, []byte{0x02}) },
	func() *Conn { return admitted() },
	func() *Conn {
		c := admitted()
		_ = c.Receive(start, []byte{0x18, 0, 0x10, 0, 0})
		return c
	},
}

func clientAfter(datagram []byte) *Conn {
	c := New(Options{}).Dial(start, address, codec.Hello{}).(*Conn)
	_ = c.Receive(start, datagram)
	return c
}

func admitted() *Conn {
	c := accept(New(Options{}), start, []byte{0x02})
	c.Admit(start, 1)
	return c
}

// watcher checks the order of a Conn's events.
type watcher struct {
	t               *testing.T
	c               *Conn
	connected, over bool
}

func (w *watcher) drain() {
	for e, ok := w.c.Poll(); ok; e, ok = w.c.Poll() {
		switch {
		case w.over:
			w.t.Errorf("%v after Disconnected", e.Kind)
		case e.Kind == codec.Connected && w.connected:
			w.t.Error("Connected twice")
		case e.Kind == codec.Received && !w.connected:
			w.t.Error("Received before Connected")
		}
		w.connected = w.connected || e.Kind == codec.Connected
		w.over = w.over || e.Kind == codec.Disconnected
	}
}

// FuzzWire parses anything as every message and writes it again: what was understood must come out the same.
func FuzzWire(f *testing.F) {
	addCaptured(f)
	f.Fuzz(func(t *testing.T, d []byte) {
		if len(d) == 0 {
			return
		}
		k := kindOf(d)
		var a ack
		if a.parse(d) == nil {
			again := a
			if err := again.parse(a.append(nil)); err != nil || again != a {
				t.Errorf("%x: %+v, again %+v, %v", d, a, again, err)
			}
		}
		var h heartbeat
		if h.parse(d) == nil && k == kindHeartbeat {
			sameStart(t, d, h.append(nil), 3)
		}
		var n clientNote
		if n.parse(d) == nil {
			sameStart(t, d, n.append(nil), 4)
		}
		var l farewell
		if l.parse(d) == nil {
			sameStart(t, d, l.append(nil, maxMessage, nil, 0), farewellLen)
		}
		fuzzMessages(t, d, k)
	})
}

// sameStart checks that two datagrams agree in their type and the first n bytes of their bodies.
func sameStart(t *testing.T, d, again []byte, n int) {
	t.Helper()
	if kindOf(d) != kindOf(again) {
		t.Errorf("%x: again %x", d, again)
	}
	for i := range n {
		if bodyByte(d, i) != bodyByte(again, i) {
			t.Errorf("%x: again %x", d, again)
		}
	}
}

// hasHead reports whether d's body begins with head.
func hasHead(d, head []byte) bool {
	for i, b := range head {
		if i >= bodyLen(d) || bodyByte(d, i) != b {
			return false
		}
	}
	return true
}

func fuzzMessages(t *testing.T, d []byte, k kind) {
	var notify notifyHeader
	if notify.parse(d) == nil {
		payload, pad := appendBody(nil, d, notifyHeaderLen)
		if again := appendDatagram(nil, k, notify.append(nil), payload, pad); !bytes.Equal(again, d) {
			t.Errorf("%x: again %x", d, again)
		}
	}
	if k != kindUnreliable && k != kindReliable {
		return
	}
	var user userHeader
	at, err := user.parse(d)
	if err != nil {
		if !errors.Is(err, codec.ErrMalformed) {
			t.Errorf("%x: %v", d, err)
		}
		return
	}
	payload, pad := appendBody(nil, d, at)
	head := user.append(nil)
	again := appendDatagram(nil, k, head, payload, pad)
	// An ID may also be written in more bytes than it needs, or with more bits than count.
	if hasHead(d, head) && !bytes.Equal(again, d) {
		t.Errorf("%x: again %x", d, again)
	}
	reread := user
	if at, err = reread.parse(again); err != nil || reread != user {
		t.Errorf("%x: %+v, again %+v, %v", d, user, reread, err)
		return
	}
	if body, p := appendBody(nil, again, at); !bytes.Equal(body, payload) || p != pad {
		t.Errorf("%x: payload %x, again %x", d, payload, body)
	}
}
