package codectest

import (
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"tidegate/codec"
)

// receive gives the Conn a datagram, and settles its books.
func (a *actor) receive(datagram []byte) {
	before := a.conn.Stats()
	err := a.conn.Receive(a.s.now, datagram)
	after := a.conn.Stats()
	switch {
	case err != nil && !isKnown(err):
		a.failf("Receive's error is none of the contract's: %v", err)
	case err != nil && after.Dropped == before.Dropped:
		a.failf("Receive returns %v and counts no drop", err)
	case after.Dropped == before.Dropped && after.Received == before.Received:
		a.failf("a datagram counts neither as received nor as dropped")
	}
	a.settle()
}

// failf ends the test with a breach of the contract by one side.
func (a *actor) failf(format string, args ...any) {
	a.s.t.Fatalf("%s, %s: %s", a.s.subject, a.name, fmt.Sprintf(format, args...))
}

func isKnown(err error) bool {
	for _, known := range errKnown {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// settle polls and transmits after an input, and checks the books.
func (a *actor) settle() {
	a.drain()
	a.transmit()
	a.audit()
}

// audit compares the figures with the earlier ones and with their bounds.
func (a *actor) audit() {
	now, was := a.conn.Stats(), a.stats
	if now.Sent < was.Sent || now.Received < was.Received || now.Resent < was.Resent || now.Lost < was.Lost ||
		now.Dropped < was.Dropped {
		a.failf("figures shrink: %+v after %+v", now, was)
	}
	if now.Queued < 0 || a.s.queue > 0 && now.Queued > a.s.queue+storySlack {
		a.failf("%d bytes queued, more than %d", now.Queued, a.s.queue)
	}
	if a.silent && now.Queued != 0 {
		a.failf("its last datagrams are written, and %d bytes are still queued", now.Queued)
	}
	a.stats = now
}

var storySeed = maphash.MakeSeed()

// drain polls until no event is left. Payloads stay as they are for the whole round.
func (a *actor) drain() {
	var first codec.Event
	var sum uint64
	for n := 0; ; n++ {
		e, ok := a.conn.Poll()
		if !ok {
			break
		}
		if n == maxRound {
			a.failf("Poll round did not end after %d events", n)
		}
		if first.Payload == nil && e.Payload != nil {
			first, sum = e, maphash.Bytes(storySeed, e.Payload)
		}
		a.handle(&e)
	}
	if first.Payload != nil && maphash.Bytes(storySeed, first.Payload) != sum {
		a.failf("a payload of %v changed within its Poll round", first.Kind)
	}
}

// handle checks the place of an event, and acts as the application.
func (a *actor) handle(e *codec.Event) {
	wrong := a.over
	switch e.Kind {
	case codec.Asked:
		wrong = wrong || a.asked || a.connected || a.dials
		a.asked = true
		if !a.s.patient {
			a.admit()
		}
	case codec.Granted:
		wrong = wrong || a.granted || a.connected || !a.dials
		a.granted = true
		if i, ok := a.conn.(codec.Introducer); ok {
			i.Introduce(a.s.now, codec.Hello{Data: []byte{1, 2}, Identity: 7})
		}
	case codec.Connected:
		wrong = wrong || a.connected || !a.dials && !a.asked
		a.connected = true
	case codec.Received:
		wrong = wrong || !a.connected
		a.received++
		if e.Mode.IsReliable() {
			a.heardReliable++
		}
	case codec.Delivered, codec.Lost:
		i := int(e.Receipt)
		wrong = i >= len(a.owed) || !a.owed[i] // an answer may come with the end
		if !wrong {
			a.owed[i] = false
		}
	case codec.Joined, codec.Left:
		wrong = wrong || !a.connected
	case codec.Disconnected:
		a.over = true
	default:
		wrong = true
	}
	if wrong {
		a.failf("%v at a wrong place: asked %t, connected %t, over %t", e.Kind, a.asked, a.connected, a.over)
	}
}

func (a *actor) admit() {
	if a.asked && !a.admitted {
		a.admitted = true
		a.conn.Admit(a.s.now, 3)
	}
}

// transmit runs a Transmit round. One more round follows the end.
func (a *actor) transmit() {
	if a.silent {
		return
	}
	if a.buffer == nil {
		a.buffer = append(make([]byte, 0, len(guard)+codec.MaxDatagram), guard...)
	}
	for n := 0; ; n++ {
		out, ok := a.conn.Transmit(a.s.now, a.buffer)
		if !ok {
			break
		}
		if n == maxRound {
			a.failf("Transmit round did not end after %d datagrams", n)
		}
		if len(out) <= len(guard) || len(out) > len(guard)+codec.MaxDatagram || &out[0] != &a.buffer[0] ||
			string(out[:len(guard)]) != string(guard) {
			a.failf("Transmit did not append one datagram of 1 to %d bytes", codec.MaxDatagram)
		}
		a.send(out[len(guard):])
	}
	a.silent = a.over
	a.drain()
	if at := a.conn.NextTimeout(); !a.advancedFrom.IsZero() && !at.IsZero() && !at.After(a.advancedFrom) {
		a.failf("Advance at %v leaves the timeout %v: no progress", a.advancedFrom, at)
	}
	a.advancedFrom = time.Time{}
}

// send puts a datagram on its way. A full line loses it.
func (a *actor) send(datagram []byte) {
	if len(a.line) == storyLine {
		return
	}
	var b []byte
	if n := len(a.spare); n > 0 {
		b, a.spare = a.spare[n-1], a.spare[:n-1]
	}
	a.line = append(a.line, append(b, datagram...))
}

// timeout returns when the actor has work; zero: never.
func (a *actor) timeout() time.Time {
	if a.conn == nil || a.over {
		return time.Time{}
	}
	return a.conn.NextTimeout()
}

// advance does the work that is due since at.
func (a *actor) advance(at time.Time) {
	a.conn.Advance(a.s.now)
	a.advancedFrom = at
	a.settle()
}

// say sends a message, if the Conn takes it.
func (a *actor) say(m codec.Message) {
	if a.conn == nil {
		return
	}
	if a.owed == nil {
		a.owed = append(a.owed, false) // receipts begin at 1
	}
	m.Receipt = codec.Receipt(len(a.owed))
	switch err := a.conn.Send(a.s.now, m); {
	case err == nil:
		a.owed = append(a.owed, true)
		if a.over {
			a.failf("takes a message after its end")
		}
	case !isKnown(err):
		a.failf("Send's error is none of the contract's: %v", err)
	}
	a.settle()
}
