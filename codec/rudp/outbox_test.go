package rudp

import (
	"bytes"
	"testing"

	"tidegate/codec"
)

func TestOutboxJoins(t *testing.T) {
	const limit = 10
	for _, c := range []struct {
		what  string
		sizes []int
		takes []int // sizes of the packets
	}{
		{"nothing", nil, []int{0}},
		{"one", []int{4}, []int{4}},
		{"fit", []int{4, 6}, []int{10}},
		{"do not fit", []int{4, 7, 3}, []int{4, 10}},
		{"order is kept", []int{9, 2, 1}, []int{9, 3}},
		{"too large to be joined", []int{1, 11, 1}, []int{1, 11, 1}},
		{"large first", []int{12, 1}, []int{12, 1}},
	} {
		var o outbox
		next := byte(0)
		for i, size := range c.sizes {
			o.add(bytes.Repeat([]byte{byte(i)}, size), codec.Receipt(i))
		}
		for _, want := range c.takes {
			joined, messages := o.take(limit)
			if len(joined) != want {
				t.Errorf("%s: took %d bytes, want %d", c.what, len(joined), want)
			}
			for _, m := range messages {
				if !bytes.Equal(joined[:m.Size], bytes.Repeat([]byte{next}, m.Size)) || m.Receipt != codec.Receipt(next) {
					t.Errorf("%s: message %d is %x with receipt %d", c.what, next, joined[:m.Size], m.Receipt)
				}
				joined = joined[m.Size:]
				next++
			}
		}
		if o.count() != 0 || o.bytes() != 0 || int(next) != len(c.sizes) {
			t.Errorf("%s: %d messages of %d bytes left", c.what, o.count(), o.bytes())
		}
	}
}

func TestOutboxJoinsBoundedNumber(t *testing.T) {
	var o outbox
	for range maxJoined + 1 {
		o.add([]byte{1}, 0)
	}
	if _, messages := o.take(1 << 20); len(messages) != maxJoined || o.count() != 1 {
		t.Errorf("took %d messages, left %d", len(messages), o.count())
	}
}

// TestOutboxMemory: an outbox that is never empty does not grow. An outbox that was full does not stay large.
func TestOutboxMemory(t *testing.T) {
	var o outbox
	payload := make([]byte, 100)
	o.add(payload, 0)
	for range 10_000 {
		o.add(payload, 0)
		o.take(1)
	}
	if cap(o.payloads) > 1000 || cap(o.waiting) > 16 {
		t.Errorf("room for %d bytes and %d messages, with 1 waiting", cap(o.payloads), cap(o.waiting))
	}
	for range maxWaiting {
		o.add(payload, 0)
	}
	for o.count() > 0 {
		o.take(1000)
	}
	if cap(o.payloads) > keptRoom || cap(o.waiting) > maxJoined {
		t.Errorf("empty, and room for %d bytes and %d messages", cap(o.payloads), cap(o.waiting))
	}
}
