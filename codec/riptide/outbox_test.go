package riptide

import (
	"bytes"
	"testing"
)

func TestOutboxInOrder(t *testing.T) {
	var o outbox
	for round := range 3 {
		o.end(append(o.begin(), "first"...))
		o.refer(65535)
		o.end(append(o.begin(), "second"...))
		if d, _, ok := o.next(); !ok || string(d) != "first" {
			t.Fatalf("round %d: %q, %v", round, d, ok)
		}
		if d, s, ok := o.next(); !ok || d != nil || s != 65535 {
			t.Fatalf("round %d: %q, %d, %v", round, d, s, ok)
		}
		o.end(append(o.begin(), bytes.Repeat([]byte("x"), maxMessage)...))
		if d, _, ok := o.next(); !ok || string(d) != "second" {
			t.Fatalf("round %d: %q, %v", round, d, ok)
		}
		if d, _, ok := o.next(); !ok || len(d) != maxMessage {
			t.Fatalf("round %d: %d bytes, %v", round, len(d), ok)
		}
		if _, _, ok := o.next(); ok || o.bytes() != 0 {
			t.Fatalf("round %d: not empty, %d bytes", round, o.bytes())
		}
	}
}

// TestOutboxReclaims: an outbox that is never quite empty does not grow.
func TestOutboxReclaims(t *testing.T) {
	var o outbox
	o.refer(0)
	for s := range seq(10000) {
		o.refer(s + 1)
		if _, got, ok := o.next(); !ok || got != s {
			t.Fatalf("%d, %v; want %d", got, ok, s)
		}
	}
	if cap(o.log) > 100 {
		t.Errorf("the log grew to %d bytes", cap(o.log))
	}
}
