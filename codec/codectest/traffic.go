package codectest

import (
	"maps"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
)

const (
	trafficMessages = 80 // in each direction of one simulation
	wrapSeeds       = 20
	maxGap          = 20   // milliseconds between two sends
	maxLate         = 3000 // microseconds by which a wake-up may be late
	usualSize       = 200  // bytes; most messages are shorter
	largeSize       = 3000
	crowdedSize     = 20000           // bytes; most of the large messages of crowded traffic are shorter
	quiet           = 2 * time.Second // time for datagrams under way to arrive
	excusedShare    = 10              // one in this many handshakes may fail in bad network conditions
)

// trafficChecks combines each mode, and all modes together, with all network conditions. Wrapping counters are checked
// in the "foul" and the "clear" conditions.
func trafficChecks(c *Config) []check {
	var list []check
	add := func(w weather, build factory) {
		for _, m := range c.modes {
			list = append(list, trafficCheck(w, m.String(), build, []codec.Mode{m}))
		}
		list = append(list, trafficCheck(w, "mixed", build, c.modes))
	}
	for _, w := range weathers {
		add(w, c.New)
	}
	calm, bad := weathers[0], foul
	bad.seeds = wrapSeeds
	wraps := func(of string, build factory) {
		bad.name, calm.name = "wrap"+of, "clear wrap"+of
		add(bad, build)
		add(calm, build) // where no message may be missing, also no unreliable one
	}
	if c.NearWrap != nil {
		wraps("", c.NearWrap)
	}
	for _, counter := range slices.Sorted(maps.Keys(c.NearWraps)) {
		wraps(" of "+counter, c.NearWraps[counter])
	}
	return list
}

func trafficCheck(w weather, what string, build factory, modes []codec.Mode) check {
	return check{"traffic/" + w.name + "/" + what, func(t tb, c *Config) {
		failed := 0
		runs := simulateSeeds(t, w.seeds, func(r *report, seed uint64) {
			if _, ok := traffic(r, c, w, build, modes, seed); !ok {
				failed++
			}
		})
		if failed > 0 && (!w.excuse || failed > 1+runs/excusedShare) {
			t.Errorf("%d of %d handshakes failed", failed, runs)
		}
		checkSameness(t, c, w, build, modes)
	}}
}

// checkSameness checks that a simulation runs the same way again, with the same protocols and with fresh ones.
func checkSameness(t tb, c *Config, w weather, build factory, modes []codec.Mode) {
	const seed = 1
	simulate(t, "sameness", func(r *report) {
		server, client := build(seed)
		used := func(uint64) (codec.Protocol, codec.Protocol) { return server, client }
		first, _ := traffic(r, c, w, used, modes, seed)
		if again, _ := traffic(r, c, w, used, modes, seed); again != first {
			r.Errorf("two simulations with the same protocols differ: a Protocol changes, or a map decides")
		}
		if again, _ := traffic(r, c, w, build, modes, seed); again != first {
			r.Errorf("two simulations of one seed differ: a codec depends on more than its input")
		}
	})
}

// traffic plays one session: both sides send, all promised messages arrive, one side leaves. It returns the digest of
// all datagrams, and false if there was no session.
func traffic(r *report, c *Config, w weather, build factory, modes []codec.Mode, seed uint64) (uint64, bool) {
	p, ok := trafficPair(r, c, w, build, modes, seed)
	return p.net.Digest(), ok
}

// trafficPair is traffic, and returns the pair as the session leaves it.
func trafficPair(
	r *report, c *Config, w weather, build factory, modes []codec.Mode, seed uint64,
) (*pair, bool) {
	p := newPair(r, c, seed, w.net)
	p.crowded = w.crowded
	if c.CalmHandshake {
		p.net.SetWeather(clear20)
	}
	if seed%4 >= 2 {
		p.client.late = time.Duration(p.rng.IntN(maxLate)) * time.Microsecond
		p.server.late = time.Duration(p.rng.IntN(maxLate)) * time.Microsecond
	}
	p.server.admitAfter = time.Duration(p.rng.IntN(2)) * 30 * time.Millisecond
	p.dial(build, seed)
	eager := seed%2 == 0 && !c.CalmHandshake
	if eager {
		p.client.plan = p.compose(modes)
	}
	if !p.connect() {
		return p, false
	}
	p.net.SetWeather(w.net)
	if !eager {
		p.client.plan = p.compose(modes)
	}
	p.server.plan = p.compose(modes)
	p.runUntilSettled(w.calm)
	p.checkStats(w)
	p.checkReleased()
	leaver, why := p.client, c.Leaves[0].Sent
	if seed%3 == 0 {
		leaver = p.server
	}
	p.closeAndCheck(leaver, why)
	return p, true
}

// compose plans the traffic of one direction: bursts and pauses, small messages and a few large ones. Crowded traffic
// has few pauses, and every other message is large.
func (p *pair) compose(modes []codec.Mode) []planned {
	at := p.net.Now()
	plan := make([]planned, trafficMessages)
	for i := range plan {
		if p.rng.IntN(3) > 0 && (!p.crowded || p.rng.IntN(10) == 0) {
			at = at.Add(time.Duration(p.rng.IntN(maxGap)) * time.Millisecond)
		}
		m := modes[p.rng.IntN(len(modes))]
		plan[i] = planned{at: at, mode: m, size: p.size(m), receipt: p.rng.IntN(4) > 0}
		plan[i].pad = p.c.Pads[p.rng.IntN(len(p.c.Pads))]
		if hasChannel(m) {
			plan[i].channel = uint8(p.rng.IntN(p.c.Channels))
		}
	}
	return plan
}

// hasChannel reports whether the mode's promise concerns an ordering channel.
func hasChannel(m codec.Mode) bool {
	return m == codec.ReliableOrdered || m == codec.ReliableSequenced || m == codec.UnreliableSequenced
}

func (p *pair) size(m codec.Mode) int {
	limit := usualSize
	switch {
	case p.crowded && p.rng.IntN(2) == 0:
		limit = crowdedSize
	case !p.crowded && p.rng.IntN(10) == 0:
		limit = largeSize
	}
	smallest := p.c.smallest()
	limit = min(limit, p.c.MaxPayload(m)-maxIDSize)
	return smallest + p.rng.IntN(max(limit-smallest, 1))
}

// maxIDSize is the size in bytes of the longest message ID minus that of ID 1. MaxPayload is the bound for ID 1.
const maxIDSize = 2

// runUntilSettled runs the planned traffic and checks its result.
func (p *pair) runUntilSettled(calm bool) {
	settled := p.net.RunUntil(settleLimit, func() bool {
		return len(p.client.plan) == 0 && len(p.server.plan) == 0 && p.up.settled() && p.down.settled()
	})
	p.net.Run(quiet)
	if !settled {
		p.r.Errorf("promised deliveries outstanding after %v", settleLimit)
	}
	for _, s := range []*side{p.client, p.server} {
		if s.over {
			p.r.Errorf("%s: the session ended by itself: %v", s.name, s.goodbye.Reason)
		}
	}
	p.up.checkArrivals(calm)
	p.down.checkArrivals(calm)
}

// clear20 is the network for checks of another subject.
var clear20 = simnet.Weather{Latency: 20 * time.Millisecond}

// weather is one kind of network conditions, and the number of seeds to run in it.
type weather struct {
	name    string
	net     simnet.Weather
	seeds   int
	calm    bool // no datagram is lost, duplicated or reordered
	excuse  bool // a handshake may fail now and then
	crowded bool // more is sent than the path takes at once, so messages wait at their sender
}

// foul is the bad network in which the whole suite must pass.
var foul = weather{
	name: "foul", seeds: 200, excuse: true,
	net: simnet.Weather{Loss: 0.2, Duplication: 0.1, Latency: 20 * time.Millisecond, Jitter: 100 * time.Millisecond},
}

// weathers lists all network conditions. Latency stays low enough for Riptide, which gives up a message after about
// 700 ms.
var weathers = []weather{
	{name: "clear", net: clear20, seeds: 10, calm: true},
	foul,
	{name: "reordered", net: simnet.Weather{Latency: time.Millisecond, Jitter: 150 * time.Millisecond}, seeds: 20},
	{
		name: "crowded", seeds: 40, excuse: true, crowded: true,
		net: simnet.Weather{Loss: 0.03, Latency: 25 * time.Millisecond, Jitter: 5 * time.Millisecond},
	},
	{name: "distant", net: simnet.Weather{Latency: 250 * time.Millisecond, Jitter: 5 * time.Millisecond}, seeds: 10},
}
