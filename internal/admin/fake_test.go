package admin

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/internal/filter"
	"tidegate/internal/fleet/view"
	"tidegate/internal/upstream"
	"tidegate/proxy"
	"tidegate/proxy/captures"
	"tidegate/proxy/relay"
	"tidegate/proxy/relay/recording"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
	"tidegate/session"
)

// fakeProxy is a proxy with one session, 12, that records its calls.
type fakeProxy struct {
	figures  relay.Figures
	err      error // of Figures, and at the end of Capture
	query    relay.ListSessions
	kicked   string
	movedTo  []netip.AddrPort
	captured recording.CaptureFilter
	recorded recording.RecordFilter
	top      relay.RankSessions
	watched  atomic.Bool
	asked    atomic.Int64 // calls of Figures

	upstreams []proxy.UpstreamStatus
}

var fakeSession = relay.Session{
	ID: 12, Listener: "play", Route: "arena", Client: netip.MustParseAddrPort("192.0.2.1:5000"),
	Server: netip.MustParseAddrPort("10.0.0.5:19132"), ClientProtocol: "riptide-2.2", UpstreamProtocol: "raknet",
	Age: 90 * time.Second, Established: true, FromClient: stats.Traffic{Messages: 7, Bytes: 700},
	ClientStats: codec.Stats{
		RTT:      20 * time.Millisecond,
		Sent:     10,
		Received: 11,
		Resent:   1,
		Lost:     2,
		Dropped:  3,
		Queued:   4,
	},
}

func (p *fakeProxy) Figures(context.Context) (relay.Figures, error) {
	p.asked.Add(1)
	return p.figures, p.err
}

// Ask answers for one session. Other requests name a session that is not there.
func (p *fakeProxy) Ask(_ context.Context, q relay.Request) error {
	switch q := q.(type) {
	case *relay.ListSessions:
		p.query, q.Sessions = *q, []relay.Session{fakeSession}
	case *relay.RankSessions:
		p.top, q.Sessions, q.Total = *q, []relay.Session{fakeSession}, 50_000
	case *relay.ShowSession:
		q.Session = fakeSession
		return isThere(q.ID)
	case *relay.KickSession:
		if q.ID == fakeSession.ID {
			p.kicked = q.Text
		}
		return isThere(q.ID)
	case *relay.MoveSession:
		return p.move(q)
	case *relay.RecordSession:
		q.State = map[string]any{"serial": q.ID.String()}
	case *relay.TakeOutSession:
		q.Record = []byte("record")
		return isThere(q.ID)
	case *relay.PutInSession:
		if string(q.Record) != "record" {
			return relay.ErrTravel
		}
	case *relay.WatchSession:
		p.watched.Store(q.ID == fakeSession.ID)
		q.Watched = &relay.Watched{Session: fakeSession}
		return isThere(q.ID)
	case *relay.UnwatchSession:
		p.watched.Store(false)
	case *relay.ExplainAddress:
		q.Why = fakeWhy(q.Address)
	case *relay.ListDrops:
		q.Drops = []stats.RecentDrop{
			{At: time.Now(), Listener: "play", From: fakeSession.Client, Times: 3},
			{At: time.Now(), Reason: stats.DropRate, Listener: "play", From: fakeSession.Client, Times: 2},
			{At: time.Now(), Listener: "play", From: fakeSession.Server, Times: 1},
		}
	}
	return nil
}

func isThere(id session.ID) error {
	if id != fakeSession.ID {
		return relay.ErrNoSession
	}
	return nil
}

func (p *fakeProxy) move(q *relay.MoveSession) error {
	switch {
	case q.ID != fakeSession.ID:
		return relay.ErrNoSession
	case q.To == fakeSession.Server:
		return relay.ErrNotMovable
	}
	p.movedTo = append(p.movedTo, q.To)
	return nil
}

func fakeWhy(a netip.Addr) relay.Why {
	return relay.Why{
		Address: a, Place: filter.Place{Country: "XA", Network: 64500, Holder: "Example"},
		Ban: &ratelimit.Ban{
			Prefix: netip.PrefixFrom(a, 24).Masked(),
			Reason: "cheats",
			Author: "root",
			Since:  time.Now(),
			Until:  time.Now(),
		},
		Sources:  []relay.SourceWhy{{Listener: "play", Rule: "crowd", Verdict: ratelimit.Drop, Observed: []string{"all"}}},
		Limits:   []relay.LimitWhy{{Limit: "packets per address", Verdict: ratelimit.Drop, Session: 12}},
		Sessions: []relay.Session{fakeSession},
		Drops: []stats.RecentDrop{
			{At: time.Now(), Listener: "play", From: fakeSession.Client, Cause: errors.New("rule crowd"), Times: 3},
		},
	}
}

// Capture captures one datagram and misses two, for any filter.
func (p *fakeProxy) Capture(_ context.Context, f recording.CaptureFilter, take func(*recording.Catch) error) error {
	p.captured = f
	if f.Session != 0 && f.Session != fakeSession.ID {
		return relay.ErrNoSession
	}
	catch := &recording.Catch{Captured: []recording.Captured{{
		At: time.Now(), From: fakeSession.Client, To: netip.MustParseAddrPort("192.0.2.9:7777"),
		Session: 12, Bytes: []byte("hello"),
	}}}
	catch.LeftOut.Upstreams = 2
	return errors.Join(take(new(recording.Catch)), take(catch), p.err)
}

// Recorded has one datagram of session 12.
func (p *fakeProxy) Recorded(_ context.Context, f recording.RecordFilter, take func(*recording.Catch) error) error {
	p.recorded = f
	switch {
	case p.err != nil:
		return p.err
	case f.Session != 0 && f.Session != fakeSession.ID:
		return captures.ErrNothingRecorded
	}
	return take(&recording.Catch{Captured: []recording.Captured{{
		At: time.Now(), From: fakeSession.Client, To: netip.MustParseAddrPort("192.0.2.9:7777"),
		Session: 12, Bytes: []byte("earlier"),
	}}})
}

func (p *fakeProxy) Upstreams() []proxy.UpstreamStatus { return p.upstreams }

func (p *fakeProxy) TransferServer(_ context.Context, name string, from netip.AddrPort) (int, error) {
	return 3, p.change(name, from, upstream.Draining)
}

func (p *fakeProxy) DrainServer(name string, server netip.AddrPort) error {
	return p.change(name, server, upstream.Draining)
}

func (p *fakeProxy) UndrainServer(name string, server netip.AddrPort) error {
	return p.change(name, server, upstream.Up)
}

func (p *fakeProxy) change(name string, server netip.AddrPort, to upstream.State) error {
	switch {
	case name != p.upstreams[0].Name:
		return proxy.ErrNoUpstream
	case server != p.upstreams[0].Servers[0].Addr:
		return upstream.ErrUnknown
	}
	p.upstreams[0].Servers[0].State = to
	return nil
}

// fake is a server in front of a fake proxy.
type fake struct {
	*Server
	proxy   *fakeProxy
	reload  error // result of a reload
	state   Reloads
	drained bool
}

func newFake(token string) *fake {
	f := &fake{proxy: &fakeProxy{upstreams: []proxy.UpstreamStatus{{Name: "arena", Servers: []upstream.Status{
		{Addr: netip.MustParseAddrPort("10.0.0.5:19132"), Sessions: 3, Weight: 1},
		{Addr: netip.MustParseAddrPort("10.0.0.6:19132"), State: upstream.Down, Cause: "timed-out", Weight: 2},
	}}}}}
	f.Server = New(Options{
		Proxy: f.proxy, Captures: f.proxy, Token: token, Version: "1.2.3", Log: zerolog.Nop(),
		Reload:  func(string) error { return f.reload },
		Reloads: func() Reloads { return f.state },
		Config:  func() Configuration { return Configuration{TOML: "[admin]\n"} },
		Joins: func() map[string]Joins {
			return map[string]Joins{"play": {Waiting: 2, Stages: map[string]uint64{"lost": 3}}}
		},
		Drain:  func() { f.drained = true },
		Limits: func() map[string]int { return map[string]int{"sessions": 10_000} },
		FleetServers: func() []FleetServer {
			return []FleetServer{{Upstream: "arena", Address: "192.0.2.9:1", Sessions: 3, DrainedBy: "ams1",
				DrainedSince: time.Now(), Nodes: []FleetServerNode{{Node: "ams1", State: "draining", Sessions: 3}}}}
		},
		FleetSessions: func() []FleetNode {
			return []FleetNode{{Node: "ams1", Age: 0.1, Sessions: 4, Protocols: []FleetProtocol{{"bedrock", 3, 1}}}}
		},
		FleetBans: func(context.Context) ([]FleetBan, error) {
			return []FleetBan{{WhyBan{Prefix: "192.0.2.0/24", Since: time.Now()}, "ams1"}}, nil
		},
		Fleet: func() view.Fleet {
			return view.Fleet{
				On: true, Name: "eu", Node: "ams1", Connected: true, Lag: 0.5, Players: view.Players{On: true},
				Limits: view.Limits{On: true},
			}
		},
		StartUpgrade: func() error { return nil }, Upgrades: func() Upgrade { return Upgrade{Error: "no such file"} },
	})
	return f
}

// ask sends a request. headers are pairs of name and value.
func (f *fake) ask(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	return askAt(f, "127.0.0.1:9470", method, path, body, headers)
}

// askAt sends a request to a host. headers are pairs of name and value. The name Host replaces the host.
func askAt(h http.Handler, host, method, path, body string, headers []string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = host
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// want checks an answer's status and parts of its text.
func want(t *testing.T, w *httptest.ResponseRecorder, status int, says ...string) {
	t.Helper()
	if w.Code != status {
		t.Errorf("status %d, want %d: %s", w.Code, status, w.Body)
	}
	for _, text := range says {
		if !strings.Contains(w.Body.String(), text) {
			t.Errorf("says %s, want %s", w.Body, text)
		}
	}
}

func TestEveryAnswerIsJSON(t *testing.T) {
	f := newFake("")
	for _, path := range []string{"/api/v1/version", "/nowhere", "/api/v1/sessions/??", "/livez", "/api/v1/openapi.json"} {
		if w := f.ask(http.MethodGet, path, ""); w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: %v", path, w.Header())
		}
	}
}
