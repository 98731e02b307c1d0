package codectest

import (
	"fmt"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
)

const (
	foulSeeds    = 20 // for checks of another subject that also run in bad network conditions
	crossedSeeds = 10 // for goodbyes that cross messages
	mostCrossed  = 30 // messages
)

// far100 is a good network with a long way.
var far100 = simnet.Weather{Latency: 100 * time.Millisecond}

// checkLeaves lets the client send each of its goodbyes.
func checkLeaves(t tb, c *Config) {
	leave := func(p *pair, said codec.Goodbye) (heard codec.Goodbye) {
		p.closeAndCheck(p.client, said)
		return p.server.goodbye
	}
	checkGoodbyes(t, c, c.Leaves, false, leave)
	checkCrossedGoodbyes(t, c, c.Leaves, func(p *pair) *side { return p.server }, leave)
}

// checkKicks lets the server send each of its goodbyes to a client in session.
func checkKicks(t tb, c *Config) {
	kick := func(p *pair, said codec.Goodbye) (heard codec.Goodbye) {
		p.closeAndCheck(p.server, said)
		return p.client.goodbye
	}
	checkGoodbyes(t, c, c.Kicks, false, kick)
	checkCrossedGoodbyes(t, c, c.Kicks, func(p *pair) *side { return p.client }, kick)
}

// checkRefusals answers Asked with each refusal.
func checkRefusals(t tb, c *Config) {
	checkGoodbyes(t, c, c.Refusals, true, func(p *pair, said codec.Goodbye) (heard codec.Goodbye) {
		p.net.Run(50 * time.Millisecond)
		p.closeAndCheck(p.server, said)
		if p.client.connected || p.server.connected {
			p.r.Errorf("Connected in spite of a refusal")
		}
		return p.client.goodbye
	})
}

// checkGoodbyes plays each goodbye in good and in bad network conditions. Each run begins with a session, or, for a
// refusal, with a client that has asked for one. A bad network may lose the goodbye; then the other side notices the
// silence.
func checkGoodbyes(t tb, c *Config, list []GoodbyeCase, refusal bool, say func(*pair, codec.Goodbye) codec.Goodbye) {
	for _, f := range list {
		play := func(r *report, seed uint64, w simnet.Weather, excused func(codec.Reason) bool) {
			p := newPair(r, c, seed, clear20)
			if !p.open(seed, refusal) {
				return
			}
			p.net.SetWeather(w)
			if heard := say(p, f.Sent); !sameGoodbye(heard, f.Received) && !excused(heard.Reason) {
				r.Errorf("goodbye %+v heard as %+v, want %+v", f.Sent, heard, f.Received)
			}
		}
		simulate(t, fmt.Sprint(f.Sent.Reason), func(r *report) {
			play(r, 1, clear20, func(codec.Reason) bool { return false })
		})
		simulateSeeds(t, foulSeeds, func(r *report, seed uint64) {
			play(r, seed, foul.net, func(heard codec.Reason) bool {
				return isSilence(heard) || refusal && heard == codec.NoConnection
			})
		})
	}
}

// checkCrossedGoodbyes plays each goodbye while messages are under way to its sayer. They are never acknowledged, but
// the goodbye ends the session.
func checkCrossedGoodbyes(
	t tb, c *Config, list []GoodbyeCase, hearer func(*pair) *side, say func(*pair, codec.Goodbye) codec.Goodbye,
) {
	for _, f := range list {
		simulateSeeds(t, crossedSeeds, func(r *report, seed uint64) {
			p := connectedPair(r, c, seed)
			if p == nil {
				return
			}
			p.net.SetWeather(far100)
			sender := hearer(p)
			for range 1 + p.rng.IntN(mostCrossed) {
				sender.send(p.net.Now(), planned{mode: c.modes[p.rng.IntN(len(c.modes))], size: c.smallest()})
				p.net.Run(2 * time.Millisecond)
			}
			if heard := say(p, f.Sent); !sameGoodbye(heard, f.Received) {
				r.Errorf("goodbye %+v that crosses messages heard as %+v, want %+v", f.Sent, heard, f.Received)
			}
		})
	}
}

// open brings a pair into session, or to the point where the server has to answer Asked.
func (p *pair) open(seed uint64, undecided bool) bool {
	if !undecided {
		p.dial(p.c.New, seed)
		return p.mustConnect()
	}
	p.server.admitAfter = -1
	p.dial(p.c.New, seed)
	if !p.net.RunUntil(p.c.DialTimeout, func() bool { return p.server.wasAsked || p.client.over }) || p.client.over {
		p.r.Errorf("server: never Asked")
		return false
	}
	return true
}

// isSilence reports whether the reason means that a session ended because of silence.
func isSilence(reason codec.Reason) bool {
	return reason == codec.TimedOut || reason == codec.PoorConnection
}

// checkStatelessRefusal lets the server refuse every client without a Conn.
func checkStatelessRefusal(t tb, c *Config) {
	if c.StatelessRefusal == codec.ReasonNone {
		return
	}
	simulate(t, "stateless refusal", func(r *report) {
		p := newPair(r, c, 1, clear20)
		p.dial(c.New, 1)
		p.node.full = true
		p.net.RunUntil(c.DialTimeout, func() bool { return p.client.over })
		if p.client.connected || p.client.goodbye.Reason != c.StatelessRefusal {
			r.Errorf("client: over %v with %v, want %v", p.client.over, p.client.goodbye.Reason, c.StatelessRefusal)
		}
	})
}
