package raknet

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/internal/testkit/allocs"
)

const patience = 100 * ms

// asked returns the numbers of the receiver's requests.
func (f *feeder) asked() (numbers []Seq24) {
	for _, r := range f.r.nacks.ranges {
		for n := r.first; !r.last.Before(n); n = n.Add(1) {
			numbers = append(numbers, n)
		}
	}
	f.r.nacks = ackQueue{}
	return numbers
}

func (f *feeder) wantAsked(what string, want ...Seq24) {
	f.t.Helper()
	got := f.asked()
	if len(got) != len(want) {
		f.t.Fatalf("%s: asked for %v, want %v", what, got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			f.t.Fatalf("%s: asked for %v, want %v", what, got, want)
		}
	}
}

// newPatientFeeder returns a feeder whose receiver has one datagram of one reliable message.
func newPatientFeeder(t *testing.T) *feeder {
	f := newFeeder(t)
	f.r.Patience = patience
	f.feed(orderedCapsule(0, 0, 8))
	return f
}

func TestMissingDatagramIsAskedForAgain(t *testing.T) {
	f := newPatientFeeder(t)
	f.n++ // 1 is lost
	f.feed(orderedCapsule(2, 2, 8))
	f.wantAsked("at once", 1)
	for _, step := range []struct {
		what string
		at   time.Duration
		want []Seq24
	}{
		{"too early", patience - 1, nil},
		{"after a while", patience, []Seq24{1}},
		{"not again so soon", 3*patience - 1, nil},
		{"after twice as long", 3 * patience, []Seq24{1}},
	} {
		f.r.askAgain(step.at, patience, false)
		f.wantAsked(step.what, step.want...)
	}
	f.n = 1
	f.feed(orderedCapsule(1, 1, 8))
	if len(f.r.holes.list) > 0 {
		t.Error("it has come, and still is a hole")
	}
}

// TestAskingEndsWhenNothingIsMissing: the lost messages arrive in datagrams of other numbers, or were not reliable.
func TestAskingEndsWhenNothingIsMissing(t *testing.T) {
	for _, test := range []struct {
		what          string
		behind, later capsule
		want          bool // whether it is requested again
	}{
		{"came under another number", orderedCapsule(2, 2, 8), orderedCapsule(1, 1, 8), false},
		{"was unreliable", orderedCapsule(1, 1, 8), orderedCapsule(2, 2, 8), false},
		{
			"shows in a later datagram only", capsule{mode: codec.Unreliable, payload: gamePayload(8)},
			orderedCapsule(2, 2, 8), true,
		},
		{"newer ones are missing", orderedCapsule(1, 1, 8), orderedCapsule(3, 3, 8), false},
	} {
		f := newPatientFeeder(t)
		f.n++
		f.feed(test.behind)
		f.feed(test.later)
		f.asked()
		f.r.askAgain(patience, patience, false)
		if got := len(f.asked()) > 0; got != test.want {
			t.Errorf("%s: asked for again: %v", test.what, got)
		}
		if left := len(f.r.holes.list) > 0; left != test.want {
			t.Errorf("%s: still a hole: %v", test.what, left)
		}
	}
}

// TestAskingIsBounded: the times, the holes, and the age of a number are bounded.
func TestAskingIsBounded(t *testing.T) {
	f := newPatientFeeder(t)
	f.n++
	f.feed(orderedCapsule(2, 2, 8))
	f.asked()
	times := 0
	for at := patience; len(f.r.holes.list) > 0; at += longestAsk {
		f.r.askAgain(at, patience, true)
		times += len(f.asked())
	}
	if times != mostAsks {
		t.Errorf("asked for again %d times, want %d", times, mostAsks)
	}

	f = newPatientFeeder(t)
	for i := range 2 * maxHoles {
		f.n++
		f.feed(orderedCapsule(Seq24(2*i+2), Seq24(2*i+2), 8))
	}
	if got := len(f.r.holes.list); got != maxHoles {
		t.Errorf("%d holes are remembered, want %d", got, maxHoles)
	}
	f.feed(orderedCapsule(1, 1, 8), orderedCapsule(3, 3, 8), orderedCapsule(5, 5, 8))
	f.n++
	f.feed(orderedCapsule(4*maxHoles, 4*maxHoles, 8))
	if got := len(f.r.holes.list); got != maxHoles-2 {
		t.Errorf("%d holes are remembered when three are not wanted any more, want %d", got, maxHoles-2)
	}
}

// TestManyHolesAreAskedFor: each hole is requested again, although all are due at once, and a NACK has fewer places.
func TestManyHolesAreAskedFor(t *testing.T) {
	f := newPatientFeeder(t)
	asked := make(map[Seq24]bool)
	for i := range maxHoles {
		f.n++
		f.feed(orderedCapsule(Seq24(2*i+2), Seq24(2*i+2), 8))
		f.asked()
	}
	for at := patience; at <= 20*patience; at += patience {
		f.r.askAgain(at, patience, true)
		for _, n := range f.asked() {
			asked[n] = true
		}
	}
	if len(asked) != maxHoles {
		t.Errorf("%d holes were requested again, want %d", len(asked), maxHoles)
	}
}

// TestMissingDatagramMayBeOld: a requested datagram is accepted, however many arrived since. Other datagrams of that
// age are not.
func TestMissingDatagramMayBeOld(t *testing.T) {
	f := newPatientFeeder(t)
	f.n++
	f.feed(orderedCapsule(2, 2, 8))
	for i := range datagramHistory {
		f.feed(orderedCapsule(Seq24(3+i), Seq24(3+i), 8))
	}
	newest := f.n
	f.n = 0
	if _, err := f.feed(orderedCapsule(0, 0, 8)); !errors.Is(err, codec.ErrWindow) {
		t.Errorf("an old one that had come: %v, want ErrWindow", err)
	}
	if got, err := f.feed(orderedCapsule(1, 1, 8)); got != datagramHistory+2 || err != nil || !f.acknowledged() {
		t.Errorf("the missing one: %d messages, %v, acknowledged %v", got, err, f.acknowledged())
	}
	f.n = newest - datagramHistory + 1 // it shares the bit of number 1
	if _, err := f.feed(orderedCapsule(0, 0, 8)); !errors.Is(err, codec.ErrDuplicate) {
		t.Errorf("one that had come: %v, want ErrDuplicate", err)
	}
}

// TestRefusedDatagramIsMissing: a datagram that was refused for lack of room is requested again.
func TestRefusedDatagramIsMissing(t *testing.T) {
	f := newPatientFeeder(t)
	if _, err := f.feed(orderedCapsule(maxReliableAhead+1, 1, 8)); !errors.Is(err, codec.ErrWindow) {
		t.Fatalf("far ahead: %v, want ErrWindow", err)
	}
	f.feed(orderedCapsule(2, 2, 8))
	f.asked()
	f.r.askAgain(patience, patience, false)
	f.wantAsked("after a while", 1)
}

func TestHolesAreSplitAndFilled(t *testing.T) {
	var h holes
	h.open(seq24Mask, 3, 0, patience) // 2^24-3 to 2^24-1
	h.open(4, 5, 0, patience)         // 0 to 4, in a hole of its own
	for _, n := range []Seq24{2, 0, seq24Mask, 4} {
		h.fill(n)
	}
	want := [][2]Seq24{{seq24Mask - 2, seq24Mask - 1}, {1, 1}, {3, 3}}
	if len(h.list) != len(want) {
		t.Fatalf("%d holes: %v", len(h.list), h.list)
	}
	for i, o := range h.list {
		if o.First != want[i][0] || o.Last != want[i][1] {
			t.Errorf("hole %d from %d to %d, want %v", i, o.First, o.Last, want[i])
		}
	}
	last := Seq24(1000)
	for len(h.list) < maxHoles {
		last += 4
		h.open(last, 3, 0, patience)
	}
	h.fill(last - 1)
	if len(h.list) != maxHoles {
		t.Errorf("%d holes after a split, want %d", len(h.list), maxHoles)
	}
}

func TestAskingAgainDoesNotAllocate(t *testing.T) {
	f := newPatientFeeder(t)
	f.n++
	f.feed(orderedCapsule(2, 2, 8))
	at := time.Duration(0)
	wire := make([]byte, 0, 1500)
	if n := allocs.PerRun(100, func() {
		f.r.holes.list[0].Asked = 0
		at += longestAsk
		f.r.askAgain(at, patience, true)
		f.r.nacks.write(wire, nackDatagram, cap(wire))
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestHolesStaySortedAndDisjoint opens and fills holes around a window that moves to and fro, as strays move it. The
// saved list can always be restored.
func TestHolesStaySortedAndDisjoint(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var h holes
		next := Seq24(rng.IntN(1 << 24))
		for step := range 300 {
			switch rng.IntN(8) {
			case 0:
				next = next.Add(rng.IntN(400) - 200)
			case 1:
				next = next.Add(rng.IntN(1 << 24))
			case 2, 3:
				h.fill(next.Add(rng.IntN(100) - 90))
			case 4:
				h.open(next, 1, 0, ms) // as expect does
			default:
				count := 1 + rng.IntN(30)
				h.open(next.Add(count-1), count, 0, ms)
				next = next.Add(count)
			}
			if err := h.check(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
		}
	}
}
