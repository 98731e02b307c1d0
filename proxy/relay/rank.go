package relay

import (
	"bytes"
	"cmp"
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/enum"
	"tidegate/proxy/stats"
	"tidegate/session"
)

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
		one.key = -float64(s.opened.UnixMicro()) // the loops' clocks differ a little
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
