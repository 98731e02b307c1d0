package enet

import (
	"testing"
	"time"

	"tidegate/codec/internal/events"
)

// TestUnfinishedMessagesExpire holds each kind of message in an inbox, and lets it wait. All memory is free again, and
// the channel takes the peer's next messages.
func TestUnfinishedMessagesExpire(t *testing.T) {
	part := make([]byte, 100)
	for _, test := range []struct {
		name string
		hold func(in *inbox) error
	}{
		{"an early message", func(in *inbox) error { return in.takeReliable(3, 40, part) }},
		{"fragments of the next message", func(in *inbox) error {
			return in.takeFragment(3, &fragment{start: 1, count: 9, total: 900}, part)
		}},
		{"fragments of an early message", func(in *inbox) error {
			return in.takeFragment(3, &fragment{start: 5, count: 9, total: 900}, part)
		}},
		{"an unreliable message behind a reliable one", func(in *inbox) error {
			return in.takeUnreliable(3, unreliableMessage{Reliable: 2, Number: 1, Payload: part}, false)
		}},
		{"fragments of an unreliable message", func(in *inbox) error {
			return in.takeUnreliableFragment(3, 0, &fragment{start: 1, count: 9, total: 900}, part)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := &inbox{events: new(events.Queue), largest: 1 << 20, now: time.Hour}
			if err := test.hold(in); err != nil || in.held+in.heldNext == 0 {
				t.Fatalf("%v, %d bytes are held", err, in.held+in.heldNext)
			}
			checkBooks(t, in)
			if n := in.expire(in.now+unfinishedPatience-1, unfinishedPatience); n != 0 {
				t.Fatalf("%d messages were given up too early", n)
			}
			if n := in.expire(in.now+unfinishedPatience, unfinishedPatience); n != 1 || in.held+in.heldNext != 0 {
				t.Errorf("%d messages were given up, and %d bytes are held", n, in.held+in.heldNext)
			}
			checkBooks(t, in)
			if err := in.takeReliable(3, 1, part); err != nil || in.events.Len() != 1 {
				t.Errorf("the next message afterwards: %v, %d events", err, in.events.Len())
			}
		})
	}
}

// TestUnfinishedMessagesMakeRoom begins large unreliable messages on three channels, each with a lost part. The oldest
// ones make room for each new one, and for early reliable messages. The latest ones are delivered when they are whole.
func TestUnfinishedMessagesMakeRoom(t *testing.T) {
	const total = 120_000
	in := &inbox{events: new(events.Queue), largest: 1 << 20, guesses: true}
	take := func(n, index int) {
		t.Helper()
		in.now += time.Millisecond
		f := fragment{start: uint16(1 + n/3), count: 3, index: uint32(index), total: total, offset: uint32(index * total / 3)}
		if err := in.takeUnreliableFragment(uint8(n%3), 0, &f, make([]byte, total/3)); err != nil {
			t.Fatalf("message %d, part %d: %v", n, index, err)
		}
		checkBooks(t, in)
	}
	const last = 20
	for n := range last + 1 {
		take(n, 0)
	}
	for i := range 64 {
		if err := in.takeReliable(5, uint16(2+i), make([]byte, 1000)); err != nil {
			t.Fatalf("early message %d: %v", i, err)
		}
		checkBooks(t, in)
	}
	take(last, 1)
	take(last, 2)
	if in.events.Len() != 1 {
		t.Errorf("%d messages were delivered, want the latest one", in.events.Len())
	}
}
