package relay

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/proxy/stats"
	"tidegate/session"
)

// ListSessions asks for a list of sessions. Empty fields select all.
type ListSessions struct {
	ofAll
	Listener, Route string
	After           session.ID // only younger sessions: the last ID of the page before
	Limit           int        // largest number of sessions
	Sessions        []Session  // the answer, oldest first
	pages           pages
}

// Next implements Request.
func (q *ListSessions) Next(relays int) (index int, work stats.Work) {
	if index = q.after(relays); index < 0 {
		q.Sessions = slices.Concat(q.pages...)
		slices.SortFunc(q.Sessions, func(a, b Session) int { return cmp.Compare(a.ID, b.ID) })
		q.Sessions = q.Sessions[:min(len(q.Sessions), q.Limit)]
	}
	return index, stats.WorkList
}

func (q *ListSessions) put(*Relay, time.Time) Visit {
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
		q.pages.add(r.describe(now, e))
		return s.costOfCopy()
	}
}

func (q *ListSessions) chooses(id session.ID, l *listener, r *route) bool {
	return id > q.After && (q.Listener == "" || l.name == q.Listener) && (q.Route == "" || r.Name == q.Route)
}

// ShowSession asks for the state of one session.
type ShowSession struct {
	ofOne
	ID      session.ID
	Session Session // the answer
}

// Next implements Request.
func (q *ShowSession) Next(relays int) (index int, work stats.Work) {
	return q.home(q.ID, relays), stats.WorkList
}

func (q *ShowSession) put(*Relay, time.Time) Visit {
	return q.find(q.ID, func(r *Relay, now time.Time, e *Entry) error {
		q.Session = r.describe(now, e)
		return nil
	})
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

// Session is the state of a session, for operators.
type Session struct {
	ID               session.ID
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

// describe copies the state of a session. Of a relayed session the proxy does not know the content.
func (r *Relay) describe(now time.Time, e *Entry) Session {
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
	s.Established = session.client.up && session.upstream.up && !session.life.isEnding()
	s.Ending, s.Held = session.life.isEnding(), session.life.isHeld()
	s.ClientStats, s.UpstreamStats = session.stats()
	return s
}
