package relay

import (
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/proxy/relay/admission"
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

// holdings has the accounts of the memory that sessions hold.
type holdings struct{ admission.Holdings }

func (h *holdings) set(e *Entry, bytes int) { h.Set(e, &e.Value.holding, e.Key.Client.Addr(), bytes) }

// excess returns a session that must give way after the account of another has grown, and why. It returns nil if no
// bound is exceeded.
func (h *holdings) excess(e *Entry) (*Entry, error) {
	victim, why := h.Excess(e, &e.Value.holding)
	if why == nil {
		return nil, nil
	}
	return victim.(*Entry), why
}

// memory returns the bytes that a session holds for its peers, and the bytes of its messages that wait for them. It
// asks the connections of the touched sides.
func (s *link) memory(touched sides) (held, queued int) {
	s.client.weigh(touched.has(clientSide))
	s.upstream.weigh(touched.has(serverSide))
	held = len(s.hello.Data) + s.kept.size() + s.client.weight.held + s.upstream.weight.held
	queued = s.client.weight.queued + s.upstream.weight.queued + s.client.Stored() + s.upstream.Stored()
	if s.listener.stream {
		in, out := buffered(s.face)
		held, queued = held+in, queued+out
	}
	if s.route.Upstream.Transport.Stream && s.socket != nil {
		in, out := buffered(s.socket)
		held, queued = held+in, queued+out
	}
	return held, queued
}

// buffered returns the bytes that a stream holds of unfinished frames, and for a slow peer.
func buffered(s netio.Socket) (in, out int) {
	if b, ok := s.(netio.Buffering); ok {
		return b.Buffered()
	}
	return 0, 0
}
