package relay

import (
	"bytes"
	"cmp"
	"net/netip"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/internal/enum"
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
		Age:              session.since(now) - session.opened,
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

// SortKey is a figure by which sessions are sorted.
type SortKey uint8

// Sort keys.
const (
	ByAge SortKey = iota
	ByClientRTT
	ByServerRTT
	ByLost
	ByResent
	ByQueued
	ByMessages
	ByClient
	ByServer
)

var sortNames = []string{
	"age", "client_rtt", "server_rtt", "lost", "resent", "queued", "messages", "client", "server",
}

// ParseSortKey parses the name of a sort key.
func ParseSortKey(name string) (k SortKey, err error) {
	err = enum.Parse(sortNames, []byte(name), &k)
	return k, err
}

// RankSessions asks for one page of the sorted sessions. At first the Relays only look at their sessions. The sessions
// of the page are copied in a second round: one of them may have ended meanwhile.
type RankSessions struct {
	ofAll
	Search     string // a part of the ID, an address, or a name of the session; empty: all
	Sort       SortKey
	Descending bool
	Offset     int
	Limit      int
	Sessions   []Session          // the answer
	Total      int                // sessions that the search found, on all pages
	found      []ranked           // in the first round
	places     map[session.ID]int // of the page's sessions, in the second round
}

// Next implements Request.
func (q *RankSessions) Next(relays int) (index int, work stats.Work) {
	if index = q.after(relays); index < 0 && q.places == nil {
		q.sort()
		q.asked = 0
		index = q.after(relays)
	}
	if index < 0 {
		q.Sessions = slices.DeleteFunc(q.Sessions, func(one Session) bool { return one.ID == 0 })
	}
	return index, stats.WorkList
}

func (q *RankSessions) put(*Relay, time.Time) Visit {
	if q.places == nil {
		return q.ranking()
	}
	return func(r *Relay, now time.Time, e *Entry) int {
		i, ok := q.places[e.Value.serial]
		if !ok {
			return looked
		}
		q.Sessions[i] = r.describe(now, e)
		return e.Value.costOfCopy()
	}
}

// ranked is a session's place in the order. Ties are broken by the ID.
type ranked struct {
	id   session.ID
	key  float64
	addr netip.AddrPort // of ByClient and ByServer
}

// sort sorts the sessions that were found, and makes room for those of the page.
func (q *RankSessions) sort() {
	slices.SortFunc(q.found, func(a, b ranked) int {
		if q.Descending {
			return b.compare(&a)
		}
		return a.compare(&b)
	})
	q.Total = len(q.found)
	some := q.found[min(q.Offset, q.Total):]
	some = some[:min(q.Limit, len(some))]
	q.places, q.Sessions = make(map[session.ID]int, len(some)), make([]Session, len(some))
	for i := range some {
		q.places[some[i].id] = i
	}
}

func (a *ranked) compare(b *ranked) int {
	return cmp.Or(cmp.Compare(a.key, b.key), a.addr.Compare(b.addr), cmp.Compare(a.id, b.id))
}

// ranking returns a visit that ranks the sessions which the search finds.
func (q *RankSessions) ranking() Visit {
	search := bytes.ToLower([]byte(q.Search))
	var text []byte
	return func(r *Relay, now time.Time, e *Entry) int {
		if len(search) > 0 {
			if text = appendWords(text[:0], e); !bytes.Contains(bytes.ToLower(text), search) {
				return copied
			}
		}
		cost := copied
		if q.Sort == ByMessages {
			r.offload.update(now, e)
			cost = e.Value.costOfCopy()
		}
		q.found = append(q.found, q.Sort.rank(e))
		return cost
	}
}

// appendWords appends the words by which a search finds a session.
func appendWords(b []byte, e *Entry) []byte {
	s := &e.Value
	b = append(append(b, s.serial.String()...), ' ')
	b = append(e.Key.Client.AppendTo(b), ' ')
	if s.server != nil {
		b = append(s.server.Addr.AppendTo(b), ' ')
	}
	b = append(append(b, s.listener.name...), ' ')
	b = append(append(b, s.route.Name...), ' ')
	return append(b, s.protocol.Spec().Name...)
}

func (k SortKey) rank(e *Entry) ranked {
	s := &e.Value
	one := ranked{id: s.serial}
	switch k {
	case ByAge:
		one.key = -float64(s.at(s.opened).UnixMicro()) // the loops' clocks differ a little
		return one
	case ByMessages:
		one.key = float64(s.fromClient.Messages + s.fromServer.Messages)
		return one
	case ByClient:
		one.addr = e.Key.Client
		return one
	case ByServer:
		if s.server != nil {
			one.addr = s.server.Addr
		}
		return one
	}
	if s.isRelayed() {
		return one
	}
	client, server := s.stats()
	switch k {
	case ByClientRTT:
		one.key = client.RTT.Seconds()
	case ByServerRTT:
		one.key = server.RTT.Seconds()
	case ByLost:
		one.key = float64(client.Lost + server.Lost)
	case ByResent:
		one.key = float64(client.Resent + server.Resent)
	case ByQueued:
		one.key = float64(client.Queued + server.Queued)
	}
	return one
}
