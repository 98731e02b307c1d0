package daemon

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/internal/config"
	"tidegate/internal/joining"
	"tidegate/internal/setup"
	"tidegate/internal/testkit/freeport"
	"tidegate/internal/upstream"
	"tidegate/proxy"
	"tidegate/proxy/relay"
	"tidegate/ratelimit"
)

// anAnswer is a server's answer to an offer, as short as it can be.
const anAnswer = "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n" +
	"m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\na=candidate:1 1 udp 1 127.0.0.1 9 typ host\r\n" +
	"a=ice-ufrag:srv%d\r\na=ice-pwd:abcdefghijabcdefghijab\r\na=fingerprint:sha-256 CC:DD\r\na=setup:active\r\n"

// entrance is a proxy that clients of NetherNet join, before servers that count their joins.
type entrance struct {
	at     netip.AddrPort
	server *proxy.Server
	joins  *joinServers
	web    [2]*httptest.Server
	joined [2]atomic.Int32
	faulty [2]atomic.Bool
	all    atomic.Int32
}

// enters starts an entrance. upstream is what the configuration says of the servers, whose addresses are its %s.
func enters(t *testing.T, upstream string) *entrance {
	t.Helper()
	e := new(entrance)
	for i := range e.web {
		e.web[i] = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if e.faulty[i].Load() {
				w.WriteHeader(http.StatusInternalServerError)
			} else if r.Method == http.MethodPost {
				e.joined[i].Add(1)
				_, _ = fmt.Fprintf(w, anAnswer, e.all.Add(1))
			}
		}))
		t.Cleanup(e.web[i].Close)
	}
	var err error
	if e.at, err = freeport.Find(netip.MustParseAddr("127.0.0.1")); err != nil {
		t.Fatal(err)
	}
	servers := [...]any{e.at, e.web[0].Listener.Addr(), e.web[1].Listener.Addr()}
	text := fmt.Sprintf(edgeUpstream+"health = \"off\"\n"+upstream, servers[:]...)
	c, _, err := config.Parse("t.toml", []byte(text), setup.Traits())
	if err != nil {
		t.Fatal(err)
	}
	settings := setup.Settings(c, 1, setup.NewSecrets())
	e.joins = newJoinServers(zerolog.Nop(), false)
	e.joins.prepare(settings, c)
	if e.server, err = proxy.Listen(settings, proxy.Options{Log: zerolog.Nop(), Loops: 1}); err != nil {
		t.Fatal(err)
	}
	go func() { _ = e.server.Run(t.Context()) }()
	e.joins.server, e.joins.bans = e.server, ratelimit.NewBans(ratelimit.Terms{})
	e.joins.follow(settings, e.server.Addrs(), c)
	t.Cleanup(e.joins.close)
	return e
}

// asks sends a client's request, and returns the status. With an offer it is a join.
func (e *entrance) asks(t *testing.T, offer string) int {
	t.Helper()
	method, path := http.MethodGet, "/v1/join"
	if offer != "" {
		method, path = http.MethodPost, "/v1/join/1"
	}
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+e.at.String()+path, strings.NewReader(offer))
	if err != nil {
		t.Fatal(err)
	}
	in, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Body.Close() }()
	_, _ = io.Copy(io.Discard, in.Body)
	return in.StatusCode
}

// joinAs lets a client ask for the state and join, and returns both statuses.
func (e *entrance) joinAs(t *testing.T, n int) [2]int {
	t.Helper()
	return [2]int{e.asks(t, ""), e.asks(t, strings.Replace(fmt.Sprintf(anAnswer, n), "active", "actpass", 1))}
}

var welcome = [2]int{http.StatusOK, http.StatusOK}

// TestJoinsTakeTurns lets clients join that first ask for the state. Only their joins take turns.
func TestJoinsTakeTurns(t *testing.T) {
	for _, balance := range []string{"round_robin", "weighted"} {
		e := enters(t, `servers = ["%s", "%s"]`+"\nbalance = \""+balance+"\"\n")
		for n := range 6 {
			if got := e.joinAs(t, n); got != welcome {
				t.Fatalf("%s: join %d: %v", balance, n, got)
			}
		}
		if one, two := e.joined[0].Load(), e.joined[1].Load(); one != 3 || two != 3 {
			t.Errorf("%s: %d and %d joins, want 3 each", balance, one, two)
		}
	}
}

// TestJoinsHoldPlaces lets clients join that send no datagram yet. Each counts at its server until its time is over.
func TestJoinsHoldPlaces(t *testing.T) {
	e := enters(t, `servers = [{ address = "%s", max_sessions = 2 }, { address = "%s", max_sessions = 2 }]`+"\n")
	for n := range 4 {
		if got := e.joinAs(t, n); got != welcome {
			t.Fatalf("join %d: %v", n, got)
		}
	}
	if one, two := e.joined[0].Load(), e.joined[1].Load(); one != 2 || two != 2 {
		t.Errorf("%d and %d joins, want 2 each", one, two)
	}
	if got := e.joinAs(t, 4); got[1] != http.StatusServiceUnavailable {
		t.Errorf("a join that has no place: %v", got)
	}
	e.joins.follow(new(relay.Settings), nil, new(config.Config)) // its listener has gone
	for _, table := range e.joins.tables {
		table.Expire(time.Now().Add(joining.DefaultLimits.Patience))
	}
	for _, s := range e.server.Upstreams()[0].Servers {
		if s.Sessions != 0 {
			t.Errorf("%d places are held for players who did not come", s.Sessions)
		}
	}
}

// TestJoinsPassFailedServers lets clients join while a server answers with faults, and while one is gone.
func TestJoinsPassFailedServers(t *testing.T) {
	e := enters(t, `servers = ["%s", "%s"]`+"\n")
	e.faulty[0].Store(true)
	if got := e.asks(t, "v=0"); got == http.StatusOK {
		t.Error("a bad offer is answered")
	}
	if got := e.joinAs(t, 1); got != welcome || e.joined[1].Load() != 1 {
		t.Errorf("with a faulty server: %v", got)
	}
	if s := e.server.Upstreams()[0].Servers[0]; s.State != upstream.Resting || s.Cause != "HTTP status 500" {
		t.Errorf("the faulty server: %+v", s)
	}
	e.faulty[0].Store(false)
	e.web[1].Close()
	if got := e.joinAs(t, 2); got != welcome || e.joined[0].Load() != 1 {
		t.Errorf("with a server that rests: %v", got)
	}

	e = enters(t, `servers = ["%s", "%s"]`+"\n")
	e.web[0].Close()
	if got := e.asks(t, strings.Replace(fmt.Sprintf(anAnswer, 1), "active", "actpass", 1)); got != http.StatusOK {
		t.Errorf("a join that finds a dead server: %d", got)
	}
	servers := e.server.Upstreams()[0].Servers
	if servers[0].Cause != upstream.Refused || servers[0].Sessions != 0 || servers[1].Sessions != 1 {
		t.Errorf("the servers: %+v", servers)
	}
	e.faulty[1].Store(true)
	e.asks(t, strings.Replace(fmt.Sprintf(anAnswer, 2), "active", "actpass", 1))
	if s := e.server.Upstreams()[0].Servers[1]; s.Sessions != 1 || s.State != upstream.Up {
		t.Errorf("a join that failed holds a place, or its offer is held against the server: %+v", s)
	}
}
