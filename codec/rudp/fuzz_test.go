package rudp

import (
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// maxFuzzed bounds the bytes of one dialogue. Longer inputs only take longer.
const maxFuzzed = 2000

// FuzzReceive makes packets from data, with numbers near the expected ones and a correct checksum. It gives them to
// both sides in every state. Nothing may panic, the contract's order of events holds, and memory stays bounded.
func FuzzReceive(f *testing.F) {
	f.Add([]byte{0x44, 0x11, 0, 0, 0x45, 0x11, 8, 8, 'd', 'a', 't', 'a', 0x43, 0x11, 0, 0})
	f.Add([]byte{0x41, 0x01, 0, 0, 0x42, 0x01, 0, 0, 0x40, 0x01, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > maxFuzzed {
			return
		}
		for _, make := range fuzzStates {
			fuzzDialogue(t, make(), data)
		}
	})
}

// fuzzStates makes a Conn in each state.
var fuzzStates = []func() *Conn{
	func() *Conn { return New(Options{}).Dial(start, address, codec.Hello{}).(*Conn) },
	func() *Conn {
		c := New(Options{}).Dial(start, address, codec.Hello{}).(*Conn)
		_ = c.Receive(start, (&packet{kind: kindAccept, data: []byte{100, 0}}).append(nil))
		return c
	},
	func() *Conn { return accept(New(Options{}), start, address) },
	func() *Conn {
		c := accept(New(Options{}), start, address)
		c.Admit(start, 1)
		return c
	},
}

func fuzzDialogue(t *testing.T, c *Conn, data []byte) {
	now := start
	watch := codectest.Watcher{T: t, Conn: c}
	asked, answered := 0, 0
	drain := func() {
		for _, e := range watch.Drain() {
			switch {
			case e.Kind == codec.Received && len(e.Payload) == 0:
				t.Error("Received nothing")
			case e.Kind == codec.Delivered || e.Kind == codec.Lost:
				answered++
			}
		}
	}
	drain()
	for rest := data; len(rest) >= 4; {
		now = now.Add(time.Duration(rest[2]) * ms)
		_ = c.Receive(now, rest[:min(len(rest), 40)]) // unchanged: almost never a packet
		n := min(4+int(rest[3]&63), len(rest))
		p := packet{
			seq:  c.received.last + seq(rest[1]&15),
			acks: acks{last: c.flight.acked + seq(rest[1]>>4) - 1, bits: uint32(rest[3]) << 24},
			kind: kind(rest[0] & 7),
			data: rest[4:n],
		}
		d := p.append(nil)
		_ = c.Receive(now, d) // most are refused
		drain()
		clear(d)
		rest = rest[n:]
		c.Advance(now)
		drain()
		if c.Send(now, codec.Message{Mode: codec.Notify, Payload: data[:min(len(data), 9)], Receipt: 1}) == nil {
			asked++
		}
		codectest.Transmit(c, now)
	}
	if n := len(c.flight.receipts) - c.flight.answered; n > maxInFlight*maxJoined {
		t.Errorf("%d receipts in flight", n)
	}
	c.Close(now, codec.Goodbye{Reason: codec.Closed, Data: data})
	drain()
	codectest.Transmit(c, now)
	if !watch.Over() || asked != answered {
		t.Errorf("disconnected %v, %d receipts of %d answered", watch.Over(), answered, asked)
	}
}
