package relay

import (
	"tidegate/codec"
	"time"
)

// sides says which of a session's two connections had an input since the last Flush. A connection without input has
// nothing to send and no event, so a turn leaves its memory alone.
type sides uint8

const (
	clientSide sides = 1 << iota
	serverSide
	bothSides = clientSide | serverSide
)

func (s sides) has(o sides) bool { return s&o != 0 }

// isSteady reports whether only inputs of its peers and of time change a session's connections.
func (s *link) isSteady() bool {
	return s.client.up && s.upstream.up && s.life == joined && !s.waits && !s.upstream.HasLost()
}

// dueSides returns the sides with an input, or whose timeout has come.
func (s *link) dueSides(now time.Time) sides {
	if !s.isSteady() {
		return bothSides
	}
	due := s.touched
	if s.client.isDue(now) {
		due |= clientSide
	}
	if s.upstream.isDue(now) {
		due |= serverSide
	}
	return due
}

func (s *side) isDue(now time.Time) bool { return !s.due.IsZero() && !now.Before(s.due) }

// plan notes the connection's next timeout, which has only changed if it was touched.
func (s *side) plan(touched bool) {
	switch {
	case !s.Live():
		s.due = time.Time{}
	case touched:
		s.due = s.Conn.NextTimeout()
	}
}

// weigh notes the memory of the connection, which has only changed if it was touched.
func (s *side) weigh(touched bool) {
	switch {
	case s.Conn == nil:
		s.weight = weight{}
	case touched:
		figures := s.Conn.Stats()
		s.weight = weight{figures.Held + figures.Kept, figures.Queued}
	}
}

// weight is the memory in bytes that a connection holds for its peer, and that of its queue.
type weight struct{ held, queued int }

// stats returns the statistics of both connections.
func (p *terminated) stats() (client, server codec.Stats) {
	if p.upstream.Conn != nil {
		server = p.upstream.Conn.Stats()
	}
	return p.client.Conn.Stats(), server
}
