package relay

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/proxy/stats"
	sessions "tidegate/session"
)

// Query selects sessions for a list. Empty fields select all sessions.
type Query struct {
	Listener, Route string
	After           sessions.ID // only younger sessions: the last ID of the page before
	Limit           int         // largest number of sessions
}

// VisitSession returns a visit to the session of an ID alone.
func VisitSession(id sessions.ID, f func(*Relay, time.Time, *Entry)) Visit {
	return func(r *Relay, now time.Time, e *Entry) int {
		if e.Value.serial != id {
			return looked
		}
		f(r, now, e)
		return enough
	}
}

// Pages are a list in pieces. A loop that appended to one piece would copy all of it now and then.
type Pages [][]Session

const pageSize = 256

func (l *Pages) add(s Session) {
	last := len(*l) - 1
	if last < 0 || len((*l)[last]) == pageSize {
		*l = append(*l, make([]Session, 0, pageSize))
		last++
	}
	(*l)[last] = append((*l)[last], s)
}

// Listing returns a visit that lists the sessions which the query selects.
func (q Query) Listing(list *Pages) Visit {
	left := q.Limit
	return func(r *Relay, now time.Time, e *Entry) int {
		s := &e.Value
		switch {
		case left == 0:
			return enough
		case !q.chooses(s.serial, s.listener, s.route):
			return looked
		}
		left--
		list.add(r.Describe(now, e))
		return s.costOfCopy()
	}
}

func (q *Query) chooses(id sessions.ID, l *listener, r *route) bool {
	return id > q.After && (q.Listener == "" || l.name == q.Listener) && (q.Route == "" || r.Name == q.Route)
}

// Session is one session of a Snapshot.
type Session struct {
	ID               sessions.ID
	Listener         string
	Route            string
	Client           netip.AddrPort
	Server           netip.AddrPort // zero while no server is chosen
	ClientProtocol   string
	UpstreamProtocol string
	Age              time.Duration
	Established      bool
	Relayed          bool // in ModeRelay: traffic counts datagrams, and there are no Stats
	Forwarded        bool // the kernel forwards the session
	Ending           bool // the proxy is saying goodbye
	Held             bool // the session has lost or left its server, and waits for another
	FromClient       stats.Traffic
	FromUpstream     stats.Traffic
	ClientStats      codec.Stats
	UpstreamStats    codec.Stats
}

// Describe copies the state of a session. Of a relayed session the proxy does not know the content.
func (r *Relay) Describe(now time.Time, e *Entry) Session {
	session := &e.Value
	r.offload.update(now, e)
	s := Session{
		ID:               session.serial,
		Listener:         session.listener.name,
		Route:            session.route.Name,
		Client:           e.Key.Client,
		ClientProtocol:   session.protocol.Spec().Name,
		UpstreamProtocol: session.route.Upstream.Protocol.Spec().Name,
		Age:              now.Sub(session.opened),
		FromClient:       session.fromClient,
		FromUpstream:     session.fromServer,
	}
	if session.server != nil {
		s.Server = session.server.Addr
	}
	if session.isRelayed() {
		s.Relayed, s.Established, s.Forwarded = true, session.life == joined, session.shortcut != nil
		return s
	}
	s.Established = session.client.up && session.upstream.up && !session.isEnding()
	s.Ending, s.Held = session.isEnding(), session.life.isHeld()
	s.ClientStats, s.UpstreamStats = session.stats()
	return s
}
