package proxy

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"tidegate/codec"
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

// Sessions returns the sessions that the query selects, oldest first. A loop spends a few nanoseconds on each session
// it has, and about a microsecond on each listed one.
func (s *Server) Sessions(ctx context.Context, q Query) ([]Session, error) {
	var all []Session
	for _, l := range s.loops {
		var some []Session
		if err := l.consult(ctx, func(r *Relay, now time.Time) { some = r.table.list(now, q) }); err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	slices.SortFunc(all, func(a, b Session) int { return cmp.Compare(a.ID, b.ID) })
	return all[:min(len(all), q.Limit)], nil
}

// Session returns one session, or ErrNoSession.
func (s *Server) Session(ctx context.Context, id SessionID) (found Session, err error) {
	err = s.atHome(ctx, id, func(r *Relay, now time.Time) (err error) {
		found, err = r.table.describe(now, id)
		return err
	})
	return found, err
}

// Kick ends a session. The client learns that it was kicked, and gets the text where its protocol can carry one. A
// client of a route in ModeRelay learns nothing.
func (s *Server) Kick(ctx context.Context, id SessionID, text string) error {
	return s.atHome(ctx, id, func(r *Relay, now time.Time) error { return r.kick(now, id, text) })
}

// atHome calls f on the loop that an ID belongs to.
func (s *Server) atHome(ctx context.Context, id SessionID, f func(*Relay, time.Time) error) error {
	var result error
	l := s.loops[id.shard(len(s.loops))]
	err := l.consult(ctx, func(r *Relay, now time.Time) { result = f(r, now) })
	if err != nil {
		return err
	}
	return result
}

// list is the Relay's part of Server.Sessions.
func (t sessionTable) list(now time.Time, q Query) []Session {
	list := make([]Session, 0, min(q.Limit, t.Len()))
	for e := range t.All {
		if len(list) == q.Limit {
			break
		}
		if p := &e.Value; q.chooses(p.serial, p.listener, p.route) {
			list = append(list, describe(now, e))
		}
	}
	return list
}

func (q *Query) chooses(id SessionID, d *listener, r *route) bool {
	return id > q.After && (q.Listener == "" || d.name == q.Listener) && (q.Route == "" || r.Name == q.Route)
}

func (t sessionTable) describe(now time.Time, id SessionID) (Session, error) {
	if e := t.find(id); e != nil {
		return describe(now, e), nil
	}
	return Session{}, ErrNoSession
}

// find returns the session with an ID, or nil.
func (t sessionTable) find(id SessionID) *entry {
	for e := range t.All {
		if e.Value.serial == id {
			return e
		}
	}
	return nil
}

func (r *Relay) kick(now time.Time, id SessionID, text string) error {
	e := r.table.find(id)
	switch {
	case e == nil:
		return ErrNoSession
	case e.Value.isEnding():
		return ErrEnding
	}
	r.dismiss(now, e, codec.Goodbye{Reason: codec.Kicked, Text: text})
	return nil
}
