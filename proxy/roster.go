package proxy

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/proxy/stats"
)

// Errors of an operator's requests to a Server.
var (
	ErrNoSession = errors.New("no such session") // the session has ended, or never existed
	ErrEnding    = errors.New("the session is ending already")
)

// Query selects sessions for a list. Empty fields select all sessions.
type Query struct {
	Listener, Route string
	After           SessionID // only younger sessions: the last ID of the page before
	Limit           int       // largest number of sessions
}

// Sessions returns the sessions that the query selects, oldest first. A loop looks at its sessions in some turns.
func (s *Server) Sessions(ctx context.Context, q Query) ([]Session, error) {
	var all []Session
	for _, l := range s.loops {
		var some pages
		if err := l.walk(ctx, stats.WorkList, q.listing(&some)); err != nil {
			return nil, err
		}
		all = append(all, slices.Concat(some...)...)
	}
	slices.SortFunc(all, func(a, b Session) int { return cmp.Compare(a.ID, b.ID) })
	return all[:min(len(all), q.Limit)], nil
}

// Session returns one session, or ErrNoSession.
func (s *Server) Session(ctx context.Context, id SessionID) (found Session, err error) {
	err = s.atHome(ctx, id, func(r *Relay, now time.Time, e *entry) error {
		found = describe(r, now, e)
		return nil
	})
	return found, err
}

// Kick ends a session. The client learns that it was kicked, and gets the text where its protocol can carry one. A
// client of a route in ModeRelay learns nothing.
func (s *Server) Kick(ctx context.Context, id SessionID, text string) error {
	return s.atHome(ctx, id, func(r *Relay, now time.Time, e *entry) error { return r.kick(now, e, text) })
}

// atHome calls f with a session, on the loop that its ID belongs to. It returns ErrNoSession if there is none.
func (s *Server) atHome(ctx context.Context, id SessionID, f func(*Relay, time.Time, *entry) error) error {
	result := ErrNoSession
	l := s.loops[id.shard(len(s.loops))]
	err := l.walk(ctx, stats.WorkList, id.visit(func(r *Relay, now time.Time, e *entry) { result = f(r, now, e) }))
	if err != nil {
		return err
	}
	return result
}

// visit returns a visit to the session of an ID alone.
func (id SessionID) visit(f func(*Relay, time.Time, *entry)) visit {
	return func(r *Relay, now time.Time, e *entry) int {
		if e.Value.serial != id {
			return looked
		}
		f(r, now, e)
		return enough
	}
}

// pages are a list in pieces. A loop that appended to one piece would copy all of it now and then.
type pages [][]Session

const pageSize = 256

func (l *pages) add(s Session) {
	last := len(*l) - 1
	if last < 0 || len((*l)[last]) == pageSize {
		*l = append(*l, make([]Session, 0, pageSize))
		last++
	}
	(*l)[last] = append((*l)[last], s)
}

// listing returns a visit that lists the sessions which the query selects.
func (q Query) listing(list *pages) visit {
	left := q.Limit
	return func(r *Relay, now time.Time, e *entry) int {
		p := &e.Value
		switch {
		case left == 0:
			return enough
		case !q.chooses(p.serial, p.listener, p.route):
			return looked
		}
		left--
		list.add(describe(r, now, e))
		return p.costOfCopy()
	}
}

func (q *Query) chooses(id SessionID, d *listener, r *route) bool {
	return id > q.After && (q.Listener == "" || d.name == q.Listener) && (q.Route == "" || r.Name == q.Route)
}

func (r *Relay) kick(now time.Time, e *entry, text string) error {
	if e.Value.isEnding() {
		return ErrEnding
	}
	r.journal.because(e, "an operator")
	r.dismiss(now, e, codec.Goodbye{Reason: codec.Kicked, Text: text})
	return nil
}
