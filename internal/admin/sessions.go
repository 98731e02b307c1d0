package admin

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"tidegate/codec"
	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
	"tidegate/session"
)

// Session is the JSON of a session.
type Session struct {
	ID       string  `json:"id"`    // unique while the process lives
	State    string  `json:"state"` // "half-open", "established", "held" or "ending"
	Mode     string  `json:"mode"`  // "terminate" or "relay"
	Listener string  `json:"listener"`
	Route    string  `json:"route"`
	Age      float64 `json:"age_seconds"`
	Client   Side    `json:"client"`
	Server   Side    `json:"server"`
}

// Side is one of a session's two connections. Counts start with the connection.
type Side struct {
	Address  string  `json:"address,omitempty"` // empty until a server is chosen
	Protocol string  `json:"protocol"`
	RTT      float64 `json:"rtt_ms,omitempty"`   // smoothed round trip, once it is known
	Messages uint64  `json:"messages"`           // received from this side
	Bytes    uint64  `json:"bytes"`              // payload of these messages
	Sent     uint64  `json:"datagrams_sent"`     // to this side
	Received uint64  `json:"datagrams_received"` // accepted from this side
	Resent   uint64  `json:"resent"`             // repeated transmissions of messages to this side
	Lost     uint64  `json:"lost"`               // messages or datagrams to this side that did not arrive the first time
	Dropped  uint64  `json:"dropped"`            // refused datagrams from this side, or parts of them
	Queued   int     `json:"queued_bytes"`       // of messages to this side that wait to be sent or acknowledged
}

// Sessions is one page of the list of sessions.
type Sessions struct {
	Sessions []Session `json:"sessions"`       // oldest first
	Next     string    `json:"next,omitempty"` // parameter "after" of the next page; empty on the last
}

// Sizes of a page of sessions.
const (
	defaultPage = 1000
	maxPage     = 10_000
)

func (s *Server) listSessions(r *http.Request) (Sessions, error) {
	ask := r.URL.Query()
	q := &relay.ListSessions{Listener: ask.Get("listener"), Route: ask.Get("route"), Limit: defaultPage}
	var err error
	if text := ask.Get("after"); text != "" {
		if q.After, err = session.ParseID(text); err != nil {
			return Sessions{}, badRequest{err}
		}
	}
	if text := ask.Get("limit"); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > maxPage {
			return Sessions{}, badRequest{fmt.Errorf("limit %q: want 1 to %d", text, maxPage)}
		}
	}
	if err := s.Proxy.Ask(r.Context(), q); err != nil {
		return Sessions{}, err
	}
	page := Sessions{Sessions: sessionsOf(q.Sessions)}
	if n := len(q.Sessions); n == q.Limit {
		page.Next = q.Sessions[n-1].ID.String()
	}
	return page, nil
}

// askAbout asks the proxy about the session in a request's path. Its ID becomes a part of the question.
func (s *Server) askAbout(r *http.Request, id *session.ID, q relay.Request) (err error) {
	if *id, err = session.ParseID(r.PathValue("id")); err != nil {
		return badRequest{err}
	}
	if err = s.Proxy.Ask(r.Context(), q); err != nil {
		return fmt.Errorf("session %s: %w", *id, err)
	}
	return nil
}

func (s *Server) showSession(r *http.Request) (Session, error) {
	q := new(relay.ShowSession)
	err := s.askAbout(r, &q.ID, q)
	return sessionOf(&q.Session), err
}

// Kick is the request body of a kick.
type Kick struct {
	Text string `json:"text,omitempty"` // shown to the player, if the protocol can carry text
}

func (s *Server) kickSession(r *http.Request, k Kick) (nothing, error) {
	q := &relay.KickSession{Text: k.Text}
	if err := s.askAbout(r, &q.ID, q); err != nil {
		return nothing{}, err
	}
	s.action(r).Stringer("session", q.ID).Str("text", k.Text).Msg("session kicked by an operator")
	return nothing{}, nil
}

// sessionsOf returns the JSON of sessions.
func sessionsOf(all []relay.Session) []Session {
	list := make([]Session, len(all))
	for i := range all {
		list[i] = sessionOf(&all[i])
	}
	return list
}

// sessionOf returns the JSON of a session.
func sessionOf(s *relay.Session) Session {
	state := "half-open"
	switch {
	case s.Ending:
		state = "ending"
	case s.Held:
		state = "held"
	case s.Established:
		state = "established"
	}
	mode := "terminate"
	if s.Relayed {
		mode = "relay"
	}
	list := Session{
		ID: s.ID.String(), State: state, Mode: mode, Listener: s.Listener, Route: s.Route,
		Age:    s.Age.Round(time.Millisecond).Seconds(),
		Client: sideOf(s.Client, s.ClientProtocol, s.FromClient, &s.ClientStats),
		Server: sideOf(s.Server, s.UpstreamProtocol, s.FromUpstream, &s.UpstreamStats),
	}
	if s.Relayed { // a message is a datagram, and has no connection that counts it
		list.Client.Received, list.Client.Sent = s.FromClient.Messages, s.FromUpstream.Messages
		list.Server.Received, list.Server.Sent = s.FromUpstream.Messages, s.FromClient.Messages
	}
	return list
}

func sideOf(addr netip.AddrPort, protocol string, from stats.Traffic, stats *codec.Stats) Side {
	one := Side{
		Protocol: protocol, RTT: milliseconds(stats.RTT), Messages: from.Messages, Bytes: from.Bytes,
		Sent: stats.Sent, Received: stats.Received, Resent: stats.Resent, Lost: stats.Lost, Dropped: stats.Dropped,
		Queued: stats.Queued,
	}
	if addr.IsValid() {
		one.Address = addr.String()
	}
	return one
}
