package relay

import (
	"cmp"
	"flag"
	"fmt"
	"testing"
	"time"

	"tidegate/codec/codectest/simnet"
)

// simulateFor and simulateGames let TestSimulate play fresh stories for a time, or a number of them. `make simulate`
// sets them.
var (
	simulateFor   = flag.Duration("simulate", 0, "play simulated stories for a time")
	simulateBrief = flag.Bool("brief", false, "do not shorten a simulated story that fails")
	simulateGames = flag.Int("games", 0, "play a number of simulated stories")
)

// storySeeds is the number of stories that TestSimulate plays without -simulate and -games.
const storySeeds = 150

// unluckyOnce is in how many games one session may end by chance, since the network lost all signs of life.
const unluckyOnce = 1000

// TestSimulate plays whole games in virtual time: players that come, talk, leave and vanish, in changing weather, while
// servers crash and freeze, operators reload, ban, kick, move and drain, the Relay is replaced, and forgers and hostile
// players send altered datagrams. A story that fails is shortened and printed. -seed plays one again, or is the first
// one of -simulate and -games.
func TestSimulate(t *testing.T) {
	family := members(oneDialect)
	var lasted time.Duration
	played, unlucky, begun := 0, 0, time.Now()
	tell := func(seed uint64) bool {
		s := newStory(seed, family)
		fault, d := s.play(t)
		lasted, played, unlucky = lasted+d, played+1, unlucky+s.unlucky
		if fault == "" {
			return true
		}
		if *simulateBrief {
			t.Errorf("%s\n%s", fault, s.title())
			return false
		}
		short, again := s.shorten(func(s *story) string { fault, _ := s.play(t); return fault })
		t.Errorf("%s\n%s\nplay it again with -run TestSimulate -seed %d\nshort: %s\n%s", fault, s.title(), seed, again, short)
		return false
	}
	switch first := cmp.Or(simnet.Seed(), uint64(begun.UnixNano())); {
	case *simulateGames == 0 && *simulateFor == 0:
		for _, seed := range simnet.Seeds(storySeeds) {
			tell(seed)
		}
	default:
		t.Logf("first seed %d", first)
		for seed := first; played < *simulateGames || time.Since(begun) < *simulateFor; seed++ {
			if !tell(seed) {
				break
			}
		}
	}
	if unlucky > 1+played/unluckyOnce {
		t.Errorf("%d sessions ended by chance in %d games, want one of %d", unlucky, played, unluckyOnce)
	}
	took := time.Since(begun)
	t.Logf("%d sessions ended by chance: the network lost all signs of life", unlucky)
	t.Logf("%d games, %.1f virtual hours in %v: %.1f hours a minute", played, lasted.Hours(), took.Round(time.Millisecond),
		lasted.Hours()/took.Minutes())
}

func (s *story) title() string { return fmt.Sprintf("seed %d, %d acts", s.seed, len(s.acts)) }
