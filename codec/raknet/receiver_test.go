package raknet

import (
	"errors"
	"testing"
	"time"

	"tidegate/codec"
)

// feeder writes datagrams to a receiver, like a peer with free choice of numbers.
type feeder struct {
	t *testing.T
	r receiver
	n Seq24 // number of the next datagram

	at time.Duration
}

func newFeeder(t *testing.T) *feeder {
	f := &feeder{t: t, r: receiver{receiving: new(receiving), heldBudget: 1 << 20, ackDelay: 10 * ms}}
	f.r.memory = new(buffers)
	f.r.splits = reassembly{memory: f.r.memory, budget: 100 << 10, partRoom: 1024}
	return f
}

// feed gives the receiver one datagram with the capsules. It returns the number of resulting messages.
func (f *feeder) feed(capsules ...capsule) (messages int, err error) {
	f.t.Helper()
	wire := appendDataHeader(nil, f.n, false, false)
	for i := range capsules {
		wire = capsules[i].append(wire)
	}
	f.n = f.n.Add(1)
	var d datagram
	if err := d.parse(wire); err != nil {
		f.t.Fatal(err)
	}
	err = f.r.take(f.at, &d)
	messages = len(f.r.memory.ready)
	f.r.memory.ready = f.r.memory.ready[:0]
	return messages, err
}

// acknowledged reports whether the last datagram fed will be acknowledged.
func (f *feeder) acknowledged() bool {
	before := f.r.acks.count
	last := f.n.Add(-1)
	f.r.acks.remove(last)
	if f.r.acks.count == before {
		return false
	}
	f.r.acks.add(last)
	return true
}

func orderedCapsule(reliable, order Seq24, size int) capsule {
	return capsule{mode: codec.ReliableOrdered, reliable: reliable, order: order, payload: gamePayload(size)}
}

func TestReceiverTakesEachMessageOnce(t *testing.T) {
	f := newFeeder(t)
	c := orderedCapsule(0, 0, 8)
	if n, err := f.feed(c); n != 1 || err != nil {
		t.Fatalf("%d messages, %v", n, err)
	}
	if n, err := f.feed(c); n != 0 || err != nil || !f.acknowledged() {
		t.Errorf("sent again in a new datagram: %d messages, %v, acknowledged %v", n, err, f.acknowledged())
	}
	f.n--
	if n, err := f.feed(c); n != 0 || !errors.Is(err, codec.ErrDuplicate) || !f.acknowledged() {
		t.Errorf("the same datagram again: %d messages, %v, acknowledged %v", n, err, f.acknowledged())
	}
	u := capsule{mode: codec.Unreliable, payload: gamePayload(8)}
	f.feed(u)
	f.n--
	if n, _ := f.feed(u); n != 0 {
		t.Errorf("an unreliable message of a repeated datagram is taken again")
	}
}

func TestReceiverRefusesReliableNumbersFarAhead(t *testing.T) {
	f := newFeeder(t)
	if _, err := f.feed(orderedCapsule(maxReliableAhead, 1, 8)); !errors.Is(err, codec.ErrWindow) || f.acknowledged() {
		t.Errorf("beyond the window: %v, acknowledged %v", err, f.acknowledged())
	}
	f.n--
	if _, err := f.feed(orderedCapsule(maxReliableAhead-1, 1, 8)); err != nil || !f.acknowledged() {
		t.Errorf("the same datagram number, with content in the window: %v, acknowledged %v", err, f.acknowledged())
	}
}

func TestReceiverRefusesDatagramsFarAhead(t *testing.T) {
	f := newFeeder(t)
	f.n = maxJump
	if _, err := f.feed(orderedCapsule(strayAhead, 0, 8)); !errors.Is(err, codec.ErrWindow) || f.r.nacks.count > 0 {
		t.Errorf("beyond the window: %v, %d asked for", err, f.r.nacks.count)
	}
	f.n = maxJump - 1
	if n, err := f.feed(orderedCapsule(0, 0, 8)); n != 1 || err != nil || f.r.nacks.count != maxMissing {
		t.Errorf("at its end: %d messages, %v, %d asked for, want %d", n, err, f.r.nacks.count, maxMissing)
	}
}

// TestReceiverHoldsWithinBounds never sends the message for which all others wait.
func TestReceiverHoldsWithinBounds(t *testing.T) {
	const budget = 128 << 10
	for _, test := range []struct{ size, want int }{
		{64, budget / (64 + placeCost)}, {1024, budget / (1024 + placeCost)},
	} {
		f := newFeeder(t)
		f.r.heldBudget = budget
		held := 0
		for i := range Seq24(maxReliableAhead - 1) {
			if _, err := f.feed(orderedCapsule(1+i, 1+i, test.size)); err == nil {
				held++
			} else if !errors.Is(err, codec.ErrLimit) || f.acknowledged() {
				t.Fatalf("over the bound: %v, acknowledged %v", err, f.acknowledged())
			}
		}
		if held != test.want {
			t.Errorf("messages of %d bytes: %d held, want %d", test.size, held, test.want)
		}
		if n, err := f.feed(orderedCapsule(0, 0, 8)); n != held+1 || err != nil {
			t.Errorf("the missing one sets %d free, %v, want %d", n, err, held+1)
		}
	}
}

// TestReceiverDropsUnreliableMessagesOverTheBound: they are acknowledged, since their sender never repeats them.
func TestReceiverDropsUnreliableMessagesOverTheBound(t *testing.T) {
	f := newFeeder(t)
	f.r.heldBudget = 0
	c := capsule{mode: codec.UnreliableSequenced, order: 5, payload: gamePayload(8)}
	if n, err := f.feed(c); n != 0 || err != nil || !f.acknowledged() || f.r.Dropped != 1 {
		t.Errorf("%d messages, %v, acknowledged %v, %d dropped", n, err, f.acknowledged(), f.r.Dropped)
	}
}

func TestReceiverRefusesSplitsWithoutRoom(t *testing.T) {
	part := func(reliable Seq24, id uint16, count, index uint32) capsule {
		return capsule{
			mode: codec.Reliable, reliable: reliable, split: true, splitID: id, splitCount: count, splitIndex: index,
			payload: gamePayload(100),
		}
	}
	f := newFeeder(t)
	for id := range uint16(2) {
		if _, err := f.feed(part(Seq24(id), id, 50, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.feed(part(2, 2, 2, 0)); !errors.Is(err, codec.ErrLimit) || f.acknowledged() {
		t.Errorf("a split message over the budget: %v, acknowledged %v", err, f.acknowledged())
	}
	for i := range uint32(49) {
		n, err := f.feed(part(Seq24(3+i), 0, 50, 1+i))
		if err != nil || n != int(i/48) {
			t.Fatalf("part %d of an open message: %d messages, %v", 1+i, n, err)
		}
	}
	if _, err := f.feed(part(2, 2, 2, 0)); err != nil {
		t.Errorf("the refused part again, with room now: %v", err)
	}
	if _, err := f.feed(part(100, 9, 1<<32-1, 0)); !errors.Is(err, errSplitTooLarge) {
		t.Errorf("a message of 2^32-1 parts: %v, want %v", err, errSplitTooLarge)
	}
}

func TestReceiverKeepsWhatCameBeforeAnInvalidCapsule(t *testing.T) {
	f := newFeeder(t)
	invalid := capsule{mode: codec.ReliableOrdered, channel: maxChannels, payload: gamePayload(8)}
	n, err := f.feed(orderedCapsule(0, 0, 8), invalid, orderedCapsule(1, 1, 8))
	if n != 1 || !errors.Is(err, codec.ErrMalformed) || !f.acknowledged() {
		t.Errorf("%d messages, %v, acknowledged %v; want 1, malformed, true", n, err, f.acknowledged())
	}
}

// TestAcknowledgementsAreRepeatedOnce: a number is acknowledged twice, if a new number gives the occasion.
func TestAcknowledgementsAreRepeatedOnce(t *testing.T) {
	f := newFeeder(t)
	f.r.acks, f.r.recent = ackQueue{}, ackQueue{}
	for _, step := range []struct {
		add  Seq24
		want ackRange
	}{{10, ackRange{10, 10}}, {11, ackRange{10, 11}}, {12, ackRange{11, 12}}, {13, ackRange{12, 13}}} {
		f.r.acknowledge(0, &datagram{number: step.add})
		var d datagram
		var list ackReader
		if err := d.parse(f.r.writeAcks(0, nil, 100)); err != nil || list.parse(d.body) != nil {
			t.Fatal(err)
		}
		if got, _ := list.next(); got != step.want || f.r.acks.count != 0 {
			t.Errorf("after %d: acknowledged %v, want %v; %d left", step.add, got, step.want, f.r.acks.count)
		}
	}
}

// TestReceiverGoesOnWhenJammed: the message that the peer cannot go on without may be any distance ahead of its turn.
// If there is no room for it, messages that wait give way once their channels have stood still.
func TestReceiverGoesOnWhenJammed(t *testing.T) {
	f := newFeeder(t)
	if _, err := f.feed(orderedCapsule(1, maxOrderAhead, 8)); !errors.Is(err, codec.ErrWindow) || f.acknowledged() {
		t.Errorf("too far ahead: %v, acknowledged %v", err, f.acknowledged())
	}
	if _, err := f.feed(orderedCapsule(0, maxOrderAhead, 8)); err != nil || !f.acknowledged() {
		t.Errorf("the due message so far ahead: %v, acknowledged %v", err, f.acknowledged())
	}
	f.r.heldBudget = f.r.channels.held()
	other := orderedCapsule(1, 1, 8)
	other.channel = 1
	for _, step := range []struct {
		at     time.Duration
		passed int
		err    error
	}{{0, 0, errHeldRoom}, {jamPatience, 0, errHeldRoom}, {jamPatience + 1, 1, nil}} {
		f.at = step.at
		if n, err := f.feed(other); n != step.passed || err != step.err {
			t.Errorf("no room for the due message for %v: %d messages, %v, want %d, %v", step.at, n, err, step.passed, step.err)
		}
	}
	if order := f.r.channels.list[0].Order; order != 0 {
		t.Errorf("a message that nothing led up to moved its channel to %d", order)
	}
}

// TestDueMessageBehindARefusedOne: the due message counts wherever it is in its datagram. Otherwise the refused one
// before it would wait for it for good.
func TestDueMessageBehindARefusedOne(t *testing.T) {
	f := newFeeder(t)
	f.r.heldBudget = 0
	early, due := orderedCapsule(1, 1, 8), orderedCapsule(0, 0, 8)
	for i, want := range []struct {
		messages int
		err      error
	}{{1, errHeldRoom}, {1, nil}} {
		if n, err := f.feed(early, due); n != want.messages || err != want.err || f.acknowledged() != (err == nil) {
			t.Errorf("time %d: %d messages, %v, acknowledged %v; want %d, %v", i, n, err, f.acknowledged(), want.messages,
				want.err)
		}
	}
}
