package relay

import (
	"bytes"
	"cmp"
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/enum"
	sessions "tidegate/session"
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

// TopQuery selects one page of the sorted sessions.
type TopQuery struct {
	Search     string // a part of the ID, an address, or a name of the session; empty: all
	Sort       SortKey
	Descending bool
	Offset     int
	Limit      int
}

// Top is one page of the sorted sessions.
type Top struct {
	Sessions []Session
	Total    int // sessions that the search found, on all pages
}

// ranked is a session's place in the order. Ties are broken by the ID.
type ranked struct {
	id   sessions.ID
	key  float64
	addr netip.AddrPort // of ByClient and ByServer
}

// Ranks are the sessions that a search has found.
type Ranks []ranked

// Page is one page of them.
type Page struct {
	places   map[sessions.ID]int
	sessions []Session
}

// Page sorts the sessions, and returns the page that the query selects.
func (q *TopQuery) Page(all Ranks) *Page {
	slices.SortFunc(all, func(a, b ranked) int {
		if q.Descending {
			return b.compare(&a)
		}
		return a.compare(&b)
	})
	some := all[min(q.Offset, len(all)):]
	some = some[:min(q.Limit, len(some))]
	p := &Page{make(map[sessions.ID]int, len(some)), make([]Session, len(some))}
	for i := range some {
		p.places[some[i].id] = i
	}
	return p
}

// Sessions returns the sessions that have been copied to the page.
func (p *Page) Sessions() []Session {
	return slices.DeleteFunc(p.sessions, func(one Session) bool { return one.ID == 0 })
}

func (a *ranked) compare(b *ranked) int {
	return cmp.Or(cmp.Compare(a.key, b.key), a.addr.Compare(b.addr), cmp.Compare(a.id, b.id))
}

// Ranking returns a visit that ranks the sessions which the search finds.
func (q TopQuery) Ranking(list *Ranks) Visit {
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
		*list = append(*list, q.Sort.rank(e))
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

// Visit copies a session to its place on the page.
func (p *Page) Visit(r *Relay, now time.Time, e *Entry) int {
	i, ok := p.places[e.Value.serial]
	if !ok {
		return looked
	}
	p.sessions[i] = r.Describe(now, e)
	return e.Value.costOfCopy()
}
