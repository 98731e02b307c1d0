package enet

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest"
)

// FuzzParse reads a header, commands and fragments without a panic. Each must stay the same when it is written again.
func FuzzParse(f *testing.F) {
	for _, c := range loadCaptures(f) {
		for _, l := range c.Lines[:min(len(c.Lines), 20)] {
			f.Add(l.Datagram)
		}
	}
	f.Fuzz(func(t *testing.T, d []byte) {
		var h header
		rest, err := h.parse(d)
		if err != nil || h.compressed { // we never write such a header
			return
		}
		if again := string(h.append(nil)); again != string(d[:len(d)-len(rest)]) {
			t.Fatalf("header %+v written as %x", h, again)
		}
		for len(rest) > 0 {
			var c command
			if rest, err = c.parse(rest); err != nil {
				return
			}
			var part fragment
			if c.kind == kindFragment && part.parse(c.body, len(c.payload)) == nil {
				if again := string(part.append(nil, len(c.payload))); again != string(c.body) {
					t.Fatalf("fragment %+v written as %x, want %x", part, again, c.body)
				}
			}
			var asks connect
			if c.kind == kindConnect {
				if asks.parse(c.body); string(asks.append(nil)) != string(c.body) {
					t.Fatalf("connect %+v written as %x, want %x", asks, asks.append(nil), c.body)
				}
			}
		}
	})
}

// FuzzReceive gives a server and a client in session datagrams from a fuzzer: two bytes of length, then the datagram.
// Their record of held memory must stay correct.
func FuzzReceive(f *testing.F) {
	for _, c := range loadCaptures(f) {
		var tape []byte
		for _, l := range c.Lines[:min(len(c.Lines), 40)] {
			tape = append(be.AppendUint16(tape, uint16(len(l.Datagram))), l.Datagram...)
		}
		f.Add(tape, false)
		f.Add(tape, true)
	}
	f.Fuzz(func(t *testing.T, tape []byte, toClient bool) {
		now := start
		server, client := New(Options{}), New(Options{})
		conns := [2]*Conn{}
		conns[1] = client.Dial(now, netip.AddrPort{}, codec.Hello{}).(*Conn)
		first, _ := conns[1].Transmit(now, nil)
		accepted, _, err := server.Accept(now, netip.AddrPort{}, first, nil)
		if err != nil {
			t.Fatal(err)
		}
		conns[0] = accepted.(*Conn)
		conns[0].Admit(now, 1)
		exchange(now, conns)
		victim := conns[0]
		if toClient {
			victim = conns[1]
		}
		for i := 0; i < 60 && len(tape) > 2; i++ {
			n := min(int(be.Uint16(tape)), len(tape)-2)
			now = now.Add(10 * time.Millisecond)
			_ = victim.Receive(now, tape[2:2+n])
			codectest.Drain(victim)
			codectest.Transmit(victim, now)
			tape = tape[2+n:]
			checkBooks(t, &victim.in)
		}
	})
}

// exchange transfers datagrams between two connections until both are silent.
func exchange(now time.Time, conns [2]*Conn) {
	for quiet := 0; quiet < 2; {
		quiet = 0
		for i, c := range conns {
			for _, ok := c.Poll(); ok; _, ok = c.Poll() {
			}
			d, ok := c.Transmit(now, nil)
			if !ok {
				quiet++
				continue
			}
			_ = conns[1-i].Receive(now, d)
		}
	}
}

// checkBooks counts an inbox's held memory again and compares.
func checkBooks(t *testing.T, in *inbox) {
	held, next, waiting, early := 0, 0, 0, 0
	for i := range in.channels {
		c := &in.channels[i]
		held += ringCost(len(c.early))
		count := 0
		for _, e := range c.early {
			held += len(e.payload)
			switch {
			case e.assembly != nil && e.assembly.IsNext:
				next += e.assembly.size()
			case e.assembly != nil:
				held += e.assembly.size()
			}
			if e.whole || e.assembly != nil {
				count++
			}
		}
		if count != c.earlyCount {
			t.Fatalf("%d early messages on channel %d, counted as %d", count, i, c.earlyCount)
		}
		early += count
		for _, r := range c.rivals {
			held += len(r.payload)
			switch {
			case r.assembly != nil && r.assembly.IsNext:
				next += r.assembly.size()
			case r.assembly != nil:
				held += r.assembly.size()
			}
		}
		for _, a := range c.unfinished {
			held += a.size()
		}
		for _, w := range c.waiting {
			held += len(w.Payload)
			waiting++
		}
	}
	if held != in.held || next != in.heldNext || waiting != in.waiting {
		t.Fatalf("holds %d, %d and %d, counted as %d, %d and %d", held, next, waiting, in.held, in.heldNext, in.waiting)
	}
	if early != in.early {
		t.Fatalf("%d early messages, counted as %d", early, in.early)
	}
	if in.held > maxHeld || in.heldNext > in.nextRoom() {
		t.Fatalf("holds %d and %d bytes, more than allowed", in.held, in.heldNext)
	}
}
