package admin

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"tidegate/codec"
	"tidegate/internal/policy"
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

// Record is the whole state of a session, without secrets and payloads.
type Record struct {
	Session Session        `json:"session"`
	State   map[string]any `json:"state"` // names and values may change with every release
}

// Travel is a session that has left a proxy, with its secrets. Another proxy takes it in.
type Travel struct {
	Record string `json:"record"` // in base64
}

func (s *Server) recordSession(r *http.Request) (Record, error) {
	shown, err := s.showSession(r)
	if err != nil {
		return Record{}, err
	}
	q := new(relay.RecordSession)
	err = s.askAbout(r, &q.ID, q)
	return Record{Session: shown, State: q.State}, err
}

func (s *Server) takeOutSession(r *http.Request, _ nothing) (Travel, error) {
	q := new(relay.TakeOutSession)
	if err := s.askAbout(r, &q.ID, q); err != nil {
		return Travel{}, err
	}
	s.Log.Info().Stringer("session", q.ID).Int("bytes", len(q.Record)).Msg("session taken out by an operator")
	return Travel{base64.StdEncoding.EncodeToString(q.Record)}, nil
}

func (s *Server) putInSession(r *http.Request, in Travel) (nothing, error) {
	b, err := base64.StdEncoding.DecodeString(in.Record)
	if err != nil {
		return nothing{}, badRequest{fmt.Errorf("record: %w", err)}
	}
	if err := s.Proxy.Ask(r.Context(), &relay.PutInSession{Record: b}); err != nil {
		return nothing{}, err
	}
	s.Log.Info().Int("bytes", len(b)).Msg("session put in by an operator; it waits for its client")
	return nothing{}, nil
}

// Transfer is the request body of a session's transfer.
type Transfer struct {
	Server string `json:"server,omitempty"` // ip:port of a server of the session's upstream; empty: any other
}

func (s *Server) transferSession(r *http.Request, to Transfer) (out nothing, err error) {
	q := new(relay.MoveSession)
	if to.Server != "" {
		if q.To, err = parseServer(to.Server); err != nil {
			return out, err
		}
	}
	if err := s.askAbout(r, &q.ID, q); err != nil {
		return out, err
	}
	s.action(r).Stringer("session", q.ID).Str("server", to.Server).Msg("session moved by an operator")
	return nothing{}, nil
}

// Moved is the number of sessions that are being moved.
type Moved struct {
	Sessions int `json:"sessions"`
}

func (s *Server) transferServer(r *http.Request, of ServerOf) (Moved, error) {
	name := r.PathValue("name")
	server, err := parseServer(of.Server)
	if err != nil {
		return Moved{}, err
	}
	n, err := s.Proxy.TransferServer(r.Context(), name, server)
	if err != nil {
		return Moved{}, fmt.Errorf("upstream %s, server %s: %w", name, server, err)
	}
	s.action(r).Str("upstream", name).Stringer("server", server).Int("sessions", n).
		Msg("server's sessions moved by an operator")
	return Moved{n}, nil
}

func parseServer(text string) (netip.AddrPort, error) {
	server, err := netip.ParseAddrPort(text)
	if err != nil {
		return server, badRequest{fmt.Errorf("server %q: want ip:port", text)}
	}
	return server, nil
}

// Metrics of sessions that change servers.
var failovers = counter("failovers_total",
	"Sessions that lost their server and were held, were moved by an operator, or got a server again.", "event")

func (out metricsOf) failovers(c *stats.Counters) {
	out.count(failovers, c.Held, "held")
	out.count(failovers, c.Moved, "moved")
	out.count(failovers, c.Regained, "regained")
}

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
