package bridge

import (
	"math/rand/v2"
	"testing"

	"tidegate/codec"
	"tidegate/internal/testkit/allocs"
)

func text(channel uint8, mode codec.Mode, s string) *codec.Message {
	return &codec.Message{Payload: []byte(s), Channel: channel, Mode: mode}
}

func TestOneOfAChannelAtATime(t *testing.T) {
	var o order
	first := text(3, codec.ReliableOrdered, "first")
	if !o.begin(first) {
		t.Fatal("an idle channel refuses")
	}
	if o.begin(text(3, codec.ReliableOrdered, "second")) {
		t.Fatal("two of a channel are under way")
	}
	if !o.begin(text(4, codec.ReliableOrdered, "other channel")) {
		t.Fatal("another channel waits")
	}
	o.keep(text(3, codec.ReliableOrdered, "second"), false, 1000)
	o.keep(text(3, codec.ReliableOrdered, "third"), false, 1000)
	channel, overtaken, free := o.answered(first.Receipt)
	if channel != 3 || overtaken || !free {
		t.Fatalf("answered = %d, %v, %v; want 3, false, true", channel, overtaken, free)
	}
	for _, want := range []string{"second", "third"} {
		if m := o.next(3); m == nil || string(m.Payload) != want {
			t.Fatalf("next = %v, want %q", m, want)
		}
	}
	if m := o.next(3); m != nil || o.load != (load{}) {
		t.Fatalf("an empty queue gives %v and holds %+v", m, o.load)
	}
}

func TestSequencedTakesThePlaceOfOlder(t *testing.T) {
	var o order
	o.begin(text(0, codec.ReliableOrdered, "under way"))
	o.keep(text(0, codec.UnreliableSequenced, "stale"), true, 1000)
	o.keep(text(0, codec.ReliableSequenced, "fresh"), true, 1000)
	o.keep(text(0, codec.ReliableOrdered, "ordered"), false, 1000)
	o.keep(text(0, codec.UnreliableSequenced, "after"), true, 1000)
	for _, want := range []string{"fresh", "ordered", "after"} {
		if m := o.next(0); m == nil || string(m.Payload) != want {
			t.Fatalf("next = %v, want %q", m, want)
		}
	}
}

func TestHeldBytesAreBounded(t *testing.T) {
	var o order
	if !o.keep(text(0, codec.ReliableOrdered, "12345"), false, 136) {
		t.Fatal("refused below the bound")
	}
	if o.keep(text(1, codec.ReliableOrdered, "1234"), false, 136) {
		t.Fatal("kept beyond the bound")
	}
	o.next(0)
	if !o.keep(text(1, codec.ReliableOrdered, "1234"), false, 136) {
		t.Fatal("refused after room was made")
	}
}

// TestSmallMessagesFillTheQueue asserts that messages without bytes fill a queue, too, since they cost memory. A record
// has room for all of them.
func TestSmallMessagesFillTheQueue(t *testing.T) {
	for limit, want := range map[int]int{64 << 10: 1024, 16 << 20: maxQueued} {
		var s Sender
		s.order.begin(text(0, codec.ReliableOrdered, ""))
		waiting, copied := 0, 0
		for waiting <= want && s.order.keep(text(0, codec.ReliableOrdered, ""), false, limit) {
			waiting++
		}
		for copied <= want && s.kept.keep(text(0, codec.ReliableOrdered, ""), careHold, true, limit) {
			copied++
		}
		if waiting != want || copied != want || s.Stored() != 2*queueOverhead*want {
			t.Errorf("%d wait, %d copies, %d bytes; want %d of each", waiting, copied, s.Stored(), want)
		}
		if waiting, copied := s.Fill(float64(limit)); waiting != 1 || copied != 1 {
			t.Errorf("filled by %v and %v, want 1", waiting, copied)
		}
		saved := s.Save()
		if restored, err := saved.Restore(); err != nil || restored.Stored() != s.Stored() {
			t.Errorf("restored with %d bytes of %d, %v", restored.Stored(), s.Stored(), err)
		}
		for s.order.next(0) != nil {
		}
		for _, receipt := range s.kept.inOrder() {
			s.kept.forget(receipt)
		}
		if places := len(s.order.channels[0].queue) + len(s.kept.kept); s.Stored() != 0 || places > 2*manyPlaces {
			t.Errorf("%d bytes and %d places are left", s.Stored(), places)
		}
	}
}

// TestQueueAgainstModel keeps and takes messages at random, and compares the queue with a plain slice.
func TestQueueAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var o order
	var model []string
	for range 20_000 {
		if rng.IntN(100) < 52 && len(model) < 200 {
			s := string(rune('a'+rng.IntN(26))) + string(make([]byte, rng.IntN(9)))
			o.keep(text(0, codec.ReliableOrdered, s), false, 1<<20)
			model = append(model, s)
			continue
		}
		m := o.next(0)
		if (m == nil) != (len(model) == 0) || m != nil && string(m.Payload) != model[0] {
			t.Fatalf("next = %v, want the first of %d", m, len(model))
		}
		if m != nil {
			model = model[1:]
		}
	}
}

func TestWatchCountsOvertaking(t *testing.T) {
	o := order{channels: []orderChannel{{sent: 1<<numberBits - 3, highest: 1<<numberBits - 3}}}
	var receipts []codec.Receipt
	for range 6 { // across the wrap-around
		m := text(0, codec.ReliableOrdered, "")
		o.watch(m)
		receipts = append(receipts, m.Receipt)
	}
	for i, step := range []struct {
		message int
		want    bool
	}{{0, false}, {2, false}, {1, true}, {4, false}, {5, false}, {3, true}} {
		_, overtaken, free := o.answered(receipts[step.message])
		if overtaken != step.want || free {
			t.Errorf("step %d: overtaken = %v, free = %v; want %v, false", i, overtaken, free, step.want)
		}
	}
}

func TestHoldingAllocatesNothing(t *testing.T) {
	var o order
	m := text(0, codec.ReliableOrdered, "a message of some length")
	step := func() {
		one := *m
		o.begin(&one)
		for range 3 {
			o.keep(m, false, 1<<20)
		}
		for range 3 {
			o.answered(one.Receipt)
			o.next(0)
		}
		o.watch(&one)
		o.answered(one.Receipt)
	}
	step()
	if n := allocs.PerRun(1000, step); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}
