package proxy

import (
	"time"

	"tidegate/codec"
)

// A side that sends more than the other takes is slowed down, where its protocol can: from half of the other's queue on
// its messages are acknowledged late, and from three quarters on refused. What still comes finds room. A game server
// may so send a world to a slow player at once, as without a proxy, where it waits in the server's own queue.
const (
	hesitateAt = 0.5
	refuseAt   = 0.75
)

// press slows the sides of a session down, or no more.
func (p *session) press(now time.Time) {
	limit := float64(p.route.Bridge.Queue)
	if p.upstream.up {
		p.upstream.press(now, p.client.fill(limit), p.ending)
	}
	if p.client.up { // also while it has no server, and nothing to wait for
		p.client.press(now, p.upstream.fill(limit), p.ending)
	}
}

// press slows the side's peer down by how full the other side is.
func (s *side) press(now time.Time, full float64, ending bool) {
	level := codec.NoPressure
	switch {
	case ending || full < hesitateAt:
	case full < refuseAt:
		level = codec.Hesitate
	default:
		level = codec.Refuse
	}
	if level == s.pressure || !s.Live() {
		return
	}
	if t, ok := s.Conn.(codec.Throttler); ok {
		s.pressure = level
		t.Throttle(now, level)
	}
}

// fill is how full the queue towards the side's peer is, of a limit where the protocol does not say.
func (s *side) fill(limit float64) float64 {
	if !s.Live() {
		return 0
	}
	held := float64(s.Held()) / limit
	if t, ok := s.Conn.(codec.Throttler); ok {
		return held + t.Fill()
	}
	return held + float64(s.Conn.Stats().Queued)/limit
}
