package prints

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"
)

func printOf(n, content int) uint32 {
	var p Prints
	return p.Of(binary.BigEndian.AppendUint64(nil, uint64(n)), uint64(content))
}

// TestRepetitionsAreKnown checks that the newest messages are told from others under their numbers, over the
// wrap-around and while memory grows.
func TestRepetitionsAreKnown(t *testing.T) {
	for _, wrap := range []int{1 << 16, 1 << 24} {
		p := Prints{Wrap: int32(wrap)}
		start := wrap - 700
		for i := range 3000 {
			n := (start + i) % wrap
			p.Add(0, n, printOf(n, 0), 0)
			for back := range min(i+1, len(p.list)) {
				old := (n - back + wrap) % wrap
				if p.Differs(old, printOf(old, 0)) {
					t.Fatalf("wrap %d: message %d is another one after %d more", wrap, old, back)
				}
				if back%50 == 0 && !p.Differs(old, printOf(old, 1)) {
					t.Fatalf("wrap %d: a forged message %d is the same after %d more", wrap, old, back)
				}
			}
		}
		if len(p.list) != Most {
			t.Errorf("%d places, want %d", len(p.list), Most)
		}
	}
}

// TestForgottenNumbersAreRepeats has a forger use a number of the peer. Once the peer's message is forgotten, its late
// repeat is no other message than the forger's.
func TestForgottenNumbersAreRepeats(t *testing.T) {
	p := Prints{Wrap: 1 << 24}
	p.Add(0, 7, printOf(7, 0), 0)
	p.Add(0, 7, printOf(7, 1), 0) // the forger's
	for i := range 2 * least {
		p.Add(time.Duration(i)*time.Second, 8+i, printOf(8+i, 0), 0)
	}
	if p.knows(7) {
		t.Fatal("the number is known: this test shows nothing")
	}
	if p.Differs(7, printOf(7, 0)) {
		t.Error("the peer's repeat counts as another message")
	}
}

// TestSlowGamesNeedLittleMemory sends messages at several rates. All of the span are known, up to Most, also when a
// burst follows a slow time.
func TestSlowGamesNeedLittleMemory(t *testing.T) {
	for _, c := range []struct{ rate, places int }{{1, least}, {30, 256}, {60, 512}, {10_000, Most}} {
		var p Prints
		var came []time.Duration
		now := time.Hour
		send := func(rate, messages int) {
			for range messages {
				now += time.Second / time.Duration(rate)
				p.Add(now, len(came), printOf(len(came), 0), 0)
				came = append(came, now)
				for n := len(came) - 1; n >= max(0, len(came)-Most) && now-came[n] < span && len(came)%16 == 0; n-- {
					if !p.Differs(n, printOf(n, 1)) {
						t.Fatalf("%d a second: message %d of %d is forgotten after %v", rate, n, len(came), now-came[n])
					}
				}
			}
		}
		if send(c.rate, 3000); len(p.list) != c.places {
			t.Errorf("%d a second: %d places, want %d", c.rate, len(p.list), c.places)
		}
		send(3000, 2*Most)
	}
}

// TestRivalsAreKnown takes several messages under one number. Each of them is known, and no further one.
func TestRivalsAreKnown(t *testing.T) {
	p := Prints{Wrap: 1 << 16}
	for content := range 10 {
		if content > 0 && !p.Differs(7, printOf(7, content)) {
			t.Errorf("content %d is known before it came", content)
		}
		p.Add(0, 7, printOf(7, content), 7)
	}
	for content := range 10 {
		if p.Differs(7, printOf(7, content)) {
			t.Errorf("content %d is not known", content)
		}
	}
	if p.Differs(8, printOf(8, 0)) {
		t.Error("a number of which nothing came has another content")
	}
}

// TestForgersDoNotPushOutThePeer has a forger use numbers of a session before the peer does, and many others. The
// peer's messages stay known for as long as it may repeat them, also over the wrap-around.
func TestForgersDoNotPushOutThePeer(t *testing.T) {
	const wrap, due, near = 1 << 16, 20, 50 // the peer's last numbers are before due, some of them before 0
	p := Prints{Wrap: int32(wrap)}
	rng := rand.New(rand.NewPCG(1, 1))
	for content := range 2 { // the forger's, and the peer's
		for n := due - near; n < due; n++ {
			p.Add(0, (n+wrap)%wrap, printOf(n, content), 0)
		}
	}
	for i := range 10_000 {
		n := due + near + rng.IntN(600)
		p.Add(0, n, printOf(n, 2+i), n-due)
	}
	for n := due - near; n < due; n++ {
		if p.Differs((n+wrap)%wrap, printOf(n, 1)) {
			t.Errorf("the peer's message %d is another one", n)
		}
	}
}

// TestForgersLeadTheOldestMissingAway has a forger keep the oldest missing number far from the peer's. The peer's
// message stays known for as long as it takes to be repeated.
func TestForgersLeadTheOldestMissingAway(t *testing.T) {
	const peers, due = 264, 600
	p := Prints{Wrap: 1 << 16}
	rng := rand.New(rand.NewPCG(1, 1))
	forge := func(count int) {
		for i := range count {
			n := due - 100 + rng.IntN(200)
			p.Add(time.Second, n, printOf(n, 2+i), n-due)
		}
	}
	forge(2000)
	for content := range 2 { // the forger's, and the peer's
		p.Add(time.Second, peers, printOf(peers, content), peers-due)
	}
	forge(100)
	if !p.knows(peers) || p.Differs(peers, printOf(peers, 1)) {
		t.Error("the peer's message is another one after 100 of a forger")
	}
}

// TestPrintsAreBounded takes messages under random numbers.
func TestPrintsAreBounded(t *testing.T) {
	p := Prints{Wrap: 1 << 24}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 100_000 {
		p.Add(0, rng.IntN(1<<24), printOf(i, i), rng.IntN(4096))
	}
	const most = 8192 // the next power of two
	if len(p.list) > most || len(p.others()) > mostRivals {
		t.Errorf("%d places and %d rivals, want at most %d and %d", len(p.list), len(p.others()), most, mostRivals)
	}
}
