package codectest

import (
	"time"

	"tidegate/codec"
)

// completionTime is the virtual time within which a codec completes or gives up what it holds for a calm peer.
const completionTime = 5 * time.Minute

// checkHeld checks the account of the memory that the side keeps for its peer, after an input.
func (s *side) checkHeld() {
	switch held := s.conn.Stats().Held; {
	case held < 0 || s.conn.Stats().Kept < 0:
		s.r.Errorf("%s: Stats.Held is %d", s.name, held)
	case held > s.c.MaxHeld:
		s.r.Errorf("%s: Stats.Held is %d, want at most %d", s.name, held, s.c.MaxHeld)
	case held != 0 && s.over:
		s.r.Errorf("%s: Stats.Held is %d after Disconnected", s.name, held)
	}
}

// checkReleased checks that both sides keep nothing for each other once all messages have arrived.
func (p *pair) checkReleased() {
	for _, s := range []*side{p.client, p.server} {
		if !p.net.RunUntil(completionTime, func() bool { return s.over || s.conn.Stats().Held == 0 }) {
			p.r.Errorf("%s: Stats.Held stays at %d", s.name, s.conn.Stats().Held)
		}
	}
}

// held returns the memory that both sides count.
func (p *pair) held() uint64 {
	n := 0
	for _, s := range []*side{p.client, p.server} {
		n += s.conn.Stats().Held + s.conn.Stats().Queued
	}
	return uint64(n)
}

const releaseDatagrams = 500 // before and after Release

// checkRelease checks that both sides free what they hold for a hostile peer when they are told to, and then hold
// nothing more.
func checkRelease(t tb, c *Config) {
	simulateSeeds(t, hostileSeeds, func(r *report, seed uint64) {
		p := newPair(r, c, seed, clear20)
		toServer, toClient := p.tap()
		if !p.open(seed, false) || p.flood(toServer, toClient, releaseDatagrams, c.FatalIfForged) < releaseDatagrams {
			return
		}
		holders := 0
		for _, s := range []*side{p.client, p.server} {
			if h, ok := s.conn.(codec.Holder); ok {
				h.Release()
				holders++
			}
		}
		if holders == 0 {
			return
		}
		p.flood(toServer, toClient, releaseDatagrams, c.FatalIfForged)
		for _, s := range []*side{p.client, p.server} {
			if stats := s.conn.Stats(); stats.Held+stats.Kept != 0 {
				r.Errorf("%s: Stats.Held is %d after Release, Stats.Kept %d", s.name, stats.Held, stats.Kept)
			}
		}
	})
}
