package codectest

import "time"

const (
	// completionTime is the virtual time within which a codec completes or gives up what it holds for a calm peer.
	completionTime = 5 * time.Minute
	// uncounted bounds the growth of a session's two sides that Stats does not count: tables of numbers, spare buffers.
	uncounted = 1 << 20
)

// checkHeld checks the account of the memory that the side keeps for its peer, after an input.
func (s *side) checkHeld() {
	switch held := s.conn.Stats().Held; {
	case held < 0:
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
