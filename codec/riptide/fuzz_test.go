package riptide

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// addCaptured seeds a fuzz target with a datagram of each type of each dialect.
func addCaptured(f *testing.F) {
	for _, h := range []string{
		"10a005", "1100100000", "4100f000700000", "8207", "432016e6e65646a60352e74697c6062203330303", "04f0ff0f", "0400",
		"05", "451066b606", "060000100000000000a0f70aaa3e2d868903", "27001000000000a0f70aaa0e", "1800100000",
		"2900200000", "3a00200000", "fb00200000",

		"0001005a", "0101000100", "0204000f000300", "0378", "03", "040562616e6e6564", "0402", "0500ffff", "0500", "06",
		"060461666b", "070200010000000000", "0801000100", "0902000200", "0a03000200",
	} {
		f.Add(codectest.Unhex(f, h))
	}
}

// maxFuzzed bounds the bytes of one dialogue. Longer inputs only take longer.
const maxFuzzed = 2000

// FuzzReceive cuts data into datagrams and gives them to both sides in every state. Nothing may panic, the contract's
// order of events holds, and memory stays bounded.
func FuzzReceive(f *testing.F) {
	addCaptured(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > maxFuzzed {
			return
		}
		for _, make := range slices.Concat(fuzzStates(v22Fuzzed), fuzzStates(v20Fuzzed)) {
			c := make()
			now := start
			watch := codectest.Watcher{T: t, Conn: c}
			watch.Drain()
			for rest := data; len(rest) > 0; {
				n := min(int(rest[0]>>3)+1, len(rest))
				now = now.Add(time.Duration(rest[0]&7) * 40 * time.Millisecond)
				_ = c.Receive(now, bytes.Clone(rest[:n])) // most are refused
				watch.Drain()
				rest = rest[n:]
				c.Advance(now)
				watch.Drain()
				_ = c.Send(now, codec.Message{Mode: codec.Reliable, Payload: data[:min(len(data), 9)]})
				_ = c.Send(now, codec.Message{Mode: codec.Notify, Receipt: 1}) // 2.0 has none
				codectest.Transmit(c, now)
			}
			if q := c.queued(); q > c.options.MaxQueued {
				t.Errorf("%d bytes queued", q)
			}
			c.Close(now, codec.Goodbye{Reason: codec.Closed, Data: data})
			watch.Drain()
			codectest.Transmit(c, now)
			if !watch.Over() {
				t.Error("not disconnected after Close")
			}
		}
	})
}

// fuzzed holds a dialect and its messages that lead from state to state.
type fuzzed struct {
	version          Version
	connect, welcome []byte
}

var (
	v22Fuzzed = fuzzed{V22, []byte{0x02}, []byte{0x18, 0, 0x10, 0, 0}}
	v20Fuzzed = fuzzed{V20, []byte{0x03}, []byte{0x08, 1, 0, 1, 0}}
)

// fuzzStates returns functions that make a Conn in each state.
func fuzzStates(f fuzzed) []func() *Conn {
	p := New(Options{Version: f.version})
	clientAfter := func(datagrams ...[]byte) *Conn {
		c := p.Dial(start, address, codec.Hello{}).(*Conn)
		for _, d := range datagrams {
			_ = c.Receive(start, d)
		}
		return c
	}
	admitted := func() *Conn {
		c := accept(p, start, f.connect)
		c.Admit(start, 1)
		return c
	}
	return []func() *Conn{
		func() *Conn { return clientAfter() },
		func() *Conn { return clientAfter(f.connect) },
		func() *Conn { return clientAfter(f.welcome) },
		func() *Conn { return accept(p, start, f.connect) },
		admitted,
		func() *Conn {
			c := admitted()
			_ = c.Receive(start, f.welcome)
			return c
		},
	}
}

// FuzzWire parses data as every message of both dialects and writes it again. Parsed messages must stay the same.
func FuzzWire(f *testing.F) {
	addCaptured(f)
	f.Fuzz(func(t *testing.T, d []byte) {
		if len(d) == 0 {
			return
		}
		for _, w := range []*dialect{v22, v20} {
			fuzzInternal(t, w, d)
			fuzzUser(t, w, d)
		}
		fuzzNotify(t, d)
	})
}

func fuzzInternal(t *testing.T, w *dialect, d []byte) {
	var a ack
	if a.parse(w, d) == nil {
		again := a
		if err := again.parse(w, a.append(w, nil)); err != nil || again != a {
			t.Errorf("%x: %+v, again %+v, %v", d, a, again, err)
		}
	}
	var h heartbeat
	if h.parse(w, d) == nil && w.kindOf(d) == kindHeartbeat {
		sameStart(t, w, d, h.append(w, nil), 3)
	}
	var n clientNote
	if n.parse(w, d) == nil {
		sameStart(t, w, d, n.append(w, nil), 4)
	}
	var l goodbye
	if l.parse(w, d) == nil {
		sameStart(t, w, d, l.append(w, nil, maxMessage, nil, 0), goodbyeLen)
	}
}

// sameStart checks that two datagrams agree in their type and the first n bytes of their bodies.
func sameStart(t *testing.T, w *dialect, d, again []byte, n int) {
	t.Helper()
	if w.kindOf(d) != w.kindOf(again) {
		t.Errorf("%x: again %x", d, again)
	}
	for i := range n {
		if w.byteAt(d, i) != w.byteAt(again, i) {
			t.Errorf("%x: again %x", d, again)
		}
	}
}

// hasHead reports whether d's body begins with head.
func hasHead(w *dialect, d, head []byte) bool {
	for i, b := range head {
		if i >= bodyLen(d) || w.byteAt(d, i) != b {
			return false
		}
	}
	return true
}

func fuzzNotify(t *testing.T, d []byte) {
	var notify notifyHeader
	if notify.parse(d) == nil {
		payload, pad := v22.payload(nil, d, notifyHeaderLen)
		if again := v22.append(nil, v22.kindOf(d), notify.append(nil), payload, pad); !bytes.Equal(again, d) {
			t.Errorf("%x: again %x", d, again)
		}
	}
}

func fuzzUser(t *testing.T, w *dialect, d []byte) {
	k := w.kindOf(d)
	if k != kindUnreliable && k != kindReliable {
		return
	}
	var user userHeader
	at, err := user.parse(w, d)
	if err != nil {
		if !errors.Is(err, codec.ErrMalformed) {
			t.Errorf("%x: %v", d, err)
		}
		return
	}
	payload, pad := w.payload(nil, d, at)
	head := user.append(w, nil)
	again := w.append(nil, k, head, payload, pad)
	// An ID may also have more bytes than it needs, or more bits than count.
	if hasHead(w, d, head) && !bytes.Equal(again, d) {
		t.Errorf("%x: again %x", d, again)
	}
	reread := user
	if at, err = reread.parse(w, again); err != nil || reread != user {
		t.Errorf("%x: %+v, again %+v, %v", d, user, reread, err)
		return
	}
	if body, p := w.payload(nil, again, at); !bytes.Equal(body, payload) || p != pad {
		t.Errorf("%x: payload %x, again %x", d, payload, body)
	}
}
