package codectest

import (
	"fmt"

	"tidegate/codec"
)

// forgedRates are datagrams a second. A slow forger can do more harm than a fast one that repairs what it breaks.
var forgedRates = []float64{0.2, 1, 10, 100, 1000}

// checkForgedLoss has blind forgers of all rates, with numbers near the session's and of all kinds, disturb a session
// that uses all modes. It bounds the share of the messages that are lost, by kind. Reliable ones must all arrive.
func checkForgedLoss(t tb, c *Config) {
	if c.ForgedLoss == nil {
		return
	}
	for _, near := range []bool{false, true} {
		if near && c.ForgeNear == nil {
			continue
		}
		for _, rate := range forgedRates {
			checkForgedRate(t, c, forger{rate: rate, near: near, allModes: true})
		}
	}
}

func checkForgedRate(t tb, c *Config, from forger) {
	lost, sent := map[codec.Mode]int{}, map[codec.Mode]int{}
	what := fmt.Sprintf("near %v, %v/s", from.near, from.rate)
	simulateSeeds(t, *forgerSeeds, func(r *report, seed uint64) {
		s := besiege(r, c, seed, from)
		if s == nil {
			return
		}
		if s.ended {
			r.Errorf("%s: the forger ended the session after %v", what, s.lasted)
		}
		for _, f := range s.flows {
			f.tally(sent, lost)
		}
	})
	for _, m := range c.modes {
		share, most := float64(lost[m])/float64(max(sent[m], 1)), c.ForgedLoss(m, from.rate)
		t.Logf("%s: %v: %d of %d lost, %.1f %%", what, m, lost[m], sent[m], 100*share)
		if share > most {
			t.Errorf("%s: %.1f %% of the %v messages were lost, want at most %.1f", what, 100*share, m, 100*most)
		}
	}
}

// tally counts the messages of a flow.
func (f *flow) tally(sent, lost map[codec.Mode]int) {
	sent[f.mode] += len(f.sent)
	for _, n := range f.arrived {
		if n == 0 {
			lost[f.mode]++
		}
	}
}
