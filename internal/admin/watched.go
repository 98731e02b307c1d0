package admin

import (
	"net/http"

	"tidegate/internal/policy"
	"tidegate/proxy/relay"
)

// Top is the JSON of one page of the sorted sessions.
type Top struct {
	Sessions []Session `json:"sessions"`
	Total    int       `json:"total"` // sessions that the search found, on all pages
}

// Bounds of a page of sorted sessions.
const (
	defaultTop = 50
	maxTop     = 1000
	maxSearch  = 100 // bytes
	maxOffset  = 1 << 24
)

func (s *Server) top(r *http.Request) (Top, error) {
	ask := r.URL.Query()
	q := &relay.RankSessions{Search: ask.Get("search"), Descending: ask.Get("order") != "ascending"}
	var err error
	if q.Limit, err = number(ask.Get("limit"), defaultTop, 1, maxTop); err != nil {
		return Top{}, err
	}
	if q.Offset, err = number(ask.Get("offset"), 0, 0, maxOffset); err != nil {
		return Top{}, err
	}
	if name := ask.Get("sort"); name != "" {
		if q.Sort, err = relay.ParseSortKey(name); err != nil {
			return Top{}, badRequest{err}
		}
	}
	q.Search = q.Search[:min(len(q.Search), maxSearch)]
	if err := s.Proxy.Ask(r.Context(), q); err != nil {
		return Top{}, err
	}
	return Top{sessionsOf(q.Sessions), q.Total}, nil
}

// Watched is the JSON of the event "session".
type Watched struct {
	Session  Session       `json:"session"`
	Messages []WatchedKind `json:"messages"` // since the first page shows the session
	Limits   []WhyLimit    `json:"limits"`   // exhausted limits
	Drops    []WhyDrop     `json:"drops"`    // last drops of the client's address, oldest first
}

// WatchedKind has the messages of one kind.
type WatchedKind struct {
	From     string `json:"from"` // "client" or "server"
	ID       int    `json:"id"`   // -1: messages without an ID; -2: all other kinds
	Mode     string `json:"mode"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
}

func watchedOf(w *relay.Watched) Watched {
	all := Watched{sessionOf(&w.Session), []WatchedKind{}, limitsOf(w.Limits), []WhyDrop{}}
	for _, m := range w.Messages {
		from := "client"
		if m.From == policy.FromUpstream {
			from = "server"
		}
		all.Messages = append(all.Messages, WatchedKind{from, m.ID, m.Mode.String(), m.Messages, m.Bytes})
	}
	for i := range w.Drops {
		all.Drops = append(all.Drops, dropOf(&w.Drops[i]))
	}
	return all
}
