package codectest

import "time"

// checkStats checks the figures that any protocol can know after a session's traffic.
func (p *pair) checkStats(w weather) {
	for _, s := range []*side{p.client, p.server} {
		stats := s.conn.Stats()
		if stats.Sent == 0 || stats.Received == 0 {
			p.r.Errorf("%s: Stats count %d datagrams sent, %d received", s.name, stats.Sent, stats.Received)
		}
		if stats.RTT != 0 && w.calm && (stats.RTT < 2*w.net.Latency || stats.RTT > 2*w.net.Latency+time.Second) {
			p.r.Errorf("%s: Stats.RTT = %v with a latency of %v", s.name, stats.RTT, w.net.Latency)
		}
		if !p.net.RunUntil(settleLimit, func() bool { return s.conn.Stats().Queued == 0 }) {
			p.r.Errorf("%s: Stats.Queued stays at %d", s.name, s.conn.Stats().Queued)
		}
	}
}

// checkGrowth checks that no count has shrunk since the last time.
func (s *side) checkGrowth() {
	last, now := s.stats, s.conn.Stats()
	if now.Sent < last.Sent || now.Received < last.Received || now.Resent < last.Resent ||
		now.Lost < last.Lost || now.Dropped < last.Dropped || now.Queued < 0 {
		s.r.Errorf("%s: Stats went from %+v to %+v", s.name, last, now)
	}
	s.stats = now
}
