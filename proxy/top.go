package proxy

import (
	"bytes"
	"cmp"
	"context"
	"net/netip"
	"slices"
	"time"

	"tidegate/internal/enum"
	"tidegate/proxy/stats"
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
	id   SessionID
	key  float64
	addr netip.AddrPort // of ByClient and ByServer
}

func (a *ranked) compare(b *ranked) int {
	return cmp.Or(cmp.Compare(a.key, b.key), a.addr.Compare(b.addr), cmp.Compare(a.id, b.id))
}

// Top returns one page of the sessions in an order. A loop only looks at its sessions, in several turns. The caller's
// goroutine sorts. The page's sessions are copied by a second walk: one of them may have ended meanwhile.
func (s *Server) Top(ctx context.Context, q TopQuery) (Top, error) {
	var all []ranked
	for _, l := range s.loops {
		var some []ranked
		if err := l.walk(ctx, stats.WorkList, q.ranking(&some)); err != nil {
			return Top{}, err
		}
		all = append(all, some...)
	}
	slices.SortFunc(all, func(a, b ranked) int {
		if q.Descending {
			return b.compare(&a)
		}
		return a.compare(&b)
	})
	page := all[min(q.Offset, len(all)):]
	page = page[:min(q.Limit, len(page))]
	places := make(map[SessionID]int, len(page))
	for i := range page {
		places[page[i].id] = i
	}
	found := make([]Session, len(page))
	for _, l := range s.loops {
		if err := l.walk(ctx, stats.WorkList, placing(places, found)); err != nil {
			return Top{}, err
		}
	}
	found = slices.DeleteFunc(found, func(one Session) bool { return one.ID == 0 })
	return Top{found, len(all)}, nil
}

// ranking returns a visit that ranks the sessions which the search finds.
func (q TopQuery) ranking(list *[]ranked) visit {
	search := bytes.ToLower([]byte(q.Search))
	var text []byte
	return func(r *Relay, now time.Time, e *entry) int {
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
func appendWords(b []byte, e *entry) []byte {
	p := &e.Value
	b = append(append(b, p.serial.String()...), ' ')
	b = append(e.Key.Client.AppendTo(b), ' ')
	if p.server != nil {
		b = append(p.server.Addr.AppendTo(b), ' ')
	}
	b = append(append(b, p.listener.name...), ' ')
	b = append(append(b, p.route.Name...), ' ')
	return append(b, p.protocol.Spec().Name...)
}

func (k SortKey) rank(e *entry) ranked {
	p := &e.Value
	one := ranked{id: p.serial}
	switch k {
	case ByAge:
		one.key = -float64(p.opened.UnixMicro()) // the loops' clocks differ a little
		return one
	case ByMessages:
		one.key = float64(p.fromClient.Messages + p.fromServer.Messages)
		return one
	case ByClient:
		one.addr = e.Key.Client
		return one
	case ByServer:
		if p.server != nil {
			one.addr = p.server.Addr
		}
		return one
	}
	if p.isRelayed() {
		return one
	}
	client, server := p.stats()
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

// placing returns a visit that copies sessions to their places on a page.
func placing(places map[SessionID]int, page []Session) visit {
	return func(r *Relay, now time.Time, e *entry) int {
		i, ok := places[e.Value.serial]
		if !ok {
			return looked
		}
		page[i] = describe(r, now, e)
		return e.Value.costOfCopy()
	}
}

// Refused returns the last drops that the loops remember, of at most the given number of sources. Sources with the
// most drops come first.
func (s *Server) Refused(ctx context.Context, sources int) ([]stats.RecentDrop, error) {
	var all []stats.RecentDrop
	for _, l := range s.loops {
		var some []stats.RecentDrop
		err := l.consult(ctx, stats.WorkWhy, func(r *Relay, _ time.Time) { some = r.drops.recent.All() })
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	times := make(map[netip.Addr]uint64)
	for i := range all {
		times[all[i].From.Addr()] += all[i].Times
	}
	slices.SortFunc(all, func(a, b stats.RecentDrop) int {
		x, y := a.From.Addr(), b.From.Addr()
		return cmp.Or(cmp.Compare(times[y], times[x]), x.Compare(y), b.At.Compare(a.At))
	})
	for i := range all {
		if i > 0 && all[i].From.Addr() != all[i-1].From.Addr() {
			if sources--; sources == 0 {
				return all[:i], nil
			}
		}
	}
	return all, nil
}
