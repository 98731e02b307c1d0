package bridge

import (
	"slices"
	"testing"

	"tidegate/codec"
	"tidegate/internal/testkit/allocs"
)

// TestKeptInOrder asserts that kept messages are listed in the order in which they were kept, also after others were
// forgotten.
func TestKeptInOrder(t *testing.T) {
	var r resends
	var all []codec.Receipt
	for i := range 6 {
		m := codec.Message{Payload: []byte{byte(i)}, Receipt: codec.Receipt(i)}
		if !r.keep(&m, careHold, true, 1000) {
			t.Fatal("no room")
		}
		all = append(all, m.Receipt)
		if i == 3 {
			r.forget(all[0])
			r.forget(all[2])
		}
	}
	r.lose(all[3])
	r.lose(all[3])
	var got []byte
	for _, receipt := range r.inOrder() {
		got = append(got, r.of(receipt).message.Payload[0])
	}
	if want := []byte{1, 3, 4, 5}; !slices.Equal(got, want) || r.bytes != 4 || r.lost != 0 {
		t.Errorf("kept %v, %d bytes, %d lost; want %v", got, r.bytes, r.lost, want)
	}
	if got := r.of(all[4]).inner; got != 4 {
		t.Errorf("order knows message 4 by %d", got)
	}
}

func TestKeepingIsBounded(t *testing.T) {
	var r resends
	m := codec.Message{Payload: make([]byte, 60)}
	if first := r.keep(&m, careHold, false, 200); !first || r.keep(&m, careHold, false, 200) {
		t.Error("the bound does not hold")
	}
	if !r.keep(&m, careReport, false, 200) {
		t.Error("a message without a copy takes room")
	}
}

func TestKeepingDoesNotAllocate(t *testing.T) {
	var r resends
	payload := make([]byte, 200)
	if n := allocs.PerRun(1000, func() {
		one, other := codec.Message{Payload: payload}, codec.Message{Payload: payload}
		r.keep(&one, careHold, true, 1000)
		r.keep(&other, careHold, true, 1000)
		r.forget(one.Receipt)
		r.forget(other.Receipt)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
