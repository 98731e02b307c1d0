package session

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/internal/testkit/allocs"
)

var epoch = time.Unix(1_700_000_000, 0)

func key(i int) Key {
	return Key{Client: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 7777)}
}

func TestLimits(t *testing.T) {
	table := NewTable[int](Limits{Sessions: 3, HalfOpen: 2}, epoch)
	first, _ := table.Add(key(0), 0)
	if _, err := table.Add(key(1), 1); err != nil {
		t.Fatalf("second of two half-open: %v", err)
	}
	if _, err := table.Add(key(2), 2); !errors.Is(err, ErrHalfOpen) {
		t.Fatalf("third half-open: err = %v, want ErrHalfOpen", err)
	}
	table.Establish(first)
	table.Establish(first)
	if got := table.HalfOpen(); got != 1 {
		t.Fatalf("half-open after one was established twice = %d, want 1", got)
	}
	second, err := table.Add(key(2), 2)
	if err != nil {
		t.Fatalf("third session: %v", err)
	}
	table.Establish(second)
	if _, err := table.Add(key(3), 3); !errors.Is(err, ErrFull) {
		t.Fatalf("fourth session: err = %v, want ErrFull", err)
	}
	table.Remove(first)
	if table.Get(key(0)) != nil || table.Len() != 2 {
		t.Fatal("a removed session is still there")
	}
	if _, err := table.Add(key(3), 3); err != nil {
		t.Fatalf("after one left: %v", err)
	}
}

func TestAllIsInOrderAndMayRemove(t *testing.T) {
	table := NewTable[int](Limits{Sessions: 10, HalfOpen: 10}, epoch)
	for i := range 6 {
		table.Add(key(i), i)
	}
	var seen []int
	for e := range table.All {
		seen = append(seen, e.Value)
		if e.Value%2 == 0 {
			table.Remove(e)
		}
	}
	if want := []int{0, 1, 2, 3, 4, 5}; !slices.Equal(seen, want) {
		t.Fatalf("walk = %v, want %v", seen, want)
	}
	seen = seen[:0]
	for e := range table.All {
		seen = append(seen, e.Value)
	}
	if want := []int{1, 3, 5}; !slices.Equal(seen, want) {
		t.Fatalf("walk after removals = %v, want %v", seen, want)
	}
}

// TestDueAgainstModel arms, moves and removes deadlines at random, from now to far beyond the wheel's range. It checks
// that each fires once, never early and at most a tick late.
func TestDueAgainstModel(t *testing.T) {
	const n = 300
	rng := rand.New(rand.NewPCG(1, 2))
	table := NewTable[int](Limits{Sessions: n, HalfOpen: n}, epoch)
	now := epoch.Add(123456 * time.Microsecond)
	want := make([]time.Time, n)
	entries := make([]*Entry[int], n)
	for i := range n {
		entries[i], _ = table.Add(key(i), i)
	}
	for range 20_000 {
		i := rng.IntN(n)
		switch rng.IntN(10) {
		case 0:
			want[i] = time.Time{}
		default:
			within := []time.Duration{10 * time.Millisecond, 10 * time.Second, 5 * time.Minute}[rng.IntN(3)]
			want[i] = now.Add(time.Duration(1 + rng.Int64N(int64(within))))
		}
		table.Schedule(entries[i], now, want[i])
		if rng.IntN(4) > 0 {
			continue
		}
		step := 50 * time.Millisecond
		if rng.IntN(50) == 0 {
			step = 2 * time.Minute
		}
		now = now.Add(time.Duration(rng.Int64N(int64(step))))
		for e := table.Due(now); e != nil; e = table.Due(now) {
			at := want[e.Value]
			if at.IsZero() || at.After(now) {
				t.Fatalf("session %d fired at %v, deadline %v", e.Value, now, at)
			}
			want[e.Value] = time.Time{}
		}
		timers := 0
		for i, at := range want {
			if !at.IsZero() && now.Sub(at) >= 2*tick {
				t.Fatalf("session %d with deadline %v has not fired at %v", i, at, now)
			}
			if !at.IsZero() {
				timers++
			}
		}
		if got := table.Timers(); got != timers {
			t.Fatalf("%d timers, want %d", got, timers)
		}
	}
}

// TestFarDeadlinesWakeSeldom checks that many sessions with far deadlines cause few wake-ups before those.
func TestFarDeadlinesWakeSeldom(t *testing.T) {
	const n = 2000
	table := NewTable[int](Limits{Sessions: n, HalfOpen: n}, epoch)
	now := epoch
	for i := range n {
		e, _ := table.Add(key(i), i)
		table.Schedule(e, now, now.Add(10*time.Minute))
		now = now.Add(3 * time.Millisecond)
	}
	turns, end := 0, now.Add(5*time.Minute)
	for ; now.Before(end); turns++ {
		if e := table.Due(now); e != nil {
			t.Fatalf("session %d fired after %v", e.Value, now.Sub(epoch))
		}
		now = table.NextTimeout()
	}
	if turns > 300 {
		t.Errorf("%d wake-ups in five minutes, want one a second at most", turns)
	}
}

func TestNextTimeoutMovesOn(t *testing.T) {
	table := NewTable[int](Limits{Sessions: 1, HalfOpen: 1}, epoch)
	if !table.NextTimeout().IsZero() {
		t.Fatal("an empty table has a timeout")
	}
	e, _ := table.Add(key(0), 0)
	table.Schedule(e, epoch, epoch.Add(20*time.Second))
	now, turns := epoch, 0
	for table.Due(now) == nil {
		next := table.NextTimeout()
		if !next.After(now) {
			t.Fatalf("NextTimeout %v does not move on from %v", next, now)
		}
		now = next
		turns++
	}
	if got := now.Sub(epoch); got != 20*time.Second {
		t.Fatalf("fired after %v, want 20s", got)
	}
	if turns > 10 {
		t.Fatalf("%d turns for one deadline of 20 s", turns)
	}
	if table.Schedule(e, now, now.Add(-time.Hour)); !table.NextTimeout().After(now) {
		t.Fatal("a deadline in the past would be a busy loop")
	}
}

func TestSteadyPathAllocatesNothing(t *testing.T) {
	table := NewTable[int](Limits{Sessions: 1, HalfOpen: 1}, epoch)
	table.Add(key(0), 0)
	now := epoch
	if n := allocs.PerRun(1000, func() {
		now = now.Add(tick)
		e := table.Get(key(0))
		table.Schedule(e, now, now.Add(10*tick))
		table.Due(now)
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func BenchmarkSchedule(b *testing.B) {
	const n = 50_000
	table := NewTable[int](Limits{Sessions: n, HalfOpen: n}, epoch)
	entries := make([]*Entry[int], n)
	for i := range n {
		entries[i], _ = table.Add(key(i), i)
	}
	now := epoch
	for i := 0; b.Loop(); i++ {
		if i%64 == 0 {
			now = now.Add(tick)
			for e := table.Due(now); e != nil; e = table.Due(now) {
				table.Schedule(e, now, now.Add(time.Second))
			}
		}
		table.Schedule(entries[i%n], now, now.Add(10*time.Millisecond+time.Second))
	}
}
