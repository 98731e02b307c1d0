package daemon

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/codec/nethernet"
	"tidegate/internal/config"
	"tidegate/internal/filter"
	"tidegate/internal/joining"
	"tidegate/internal/policy"
	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/freeport"
	"tidegate/proxy/relay"
	"tidegate/ratelimit"
)

// TestCalls joins a server of an upstream, which refuses. Without a usable key, none can be joined.
func TestCalls(t *testing.T) {
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(refuses.Close)
	s := newJoinServers(zerolog.Nop(), false)
	c := &config.Config{Upstreams: []config.Upstream{{Name: "one"}, {Name: "two", IdentityKey: "missing.pem"}}}
	all := &relay.Settings{}
	for _, name := range []string{"one:19133", "two"} {
		u := &relay.Upstream{Name: name, Protocol: relay.NetherNet}
		all.Listeners = append(all.Listeners, relay.Listener{Name: name, Route: &relay.Route{Name: name, Upstream: u}})
	}
	for i := range all.Listeners {
		all.Listeners[i].Route.Mode = policy.ModeRelay
	}
	if s.prepare(all, c); s.host != nil || s.key != nil || all.Listeners[0].Route.Upstream.Joiner != nil {
		t.Error("a relay has stacks")
	}
	for i := range all.Listeners {
		all.Listeners[i].Route.Mode = policy.ModeTerminate
	}
	s.prepare(all, c)
	if all.Listeners[1].Route.Upstream.Joiner != nil || s.key == nil {
		t.Error("a server is joined without its key")
	}
	woken := make(chan struct{})
	at := netip.MustParseAddrPort(refuses.Listener.Addr().String())
	q := all.Listeners[0].Route.Upstream.Joiner.Join(at, func() { close(woken) })
	<-woken
	var refusal *nethernet.Refusal
	if answer, err := q.Take(); answer != nil || !errors.As(err, &refusal) || refusal.Status != 503 {
		t.Errorf("%v, %v", answer, err)
	}
	q.Abandon()
}

// TestJoinsExpireWithoutPort ends the joins whose players never came, also while another process has the TCP port.
func TestJoinsExpireWithoutPort(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	at := busy.Addr().(*net.TCPAddr).AddrPort()
	s := newJoinServers(zerolog.Nop(), false)
	t.Cleanup(s.close)
	all := &relay.Settings{Listeners: []relay.Listener{{
		Name: "bedrock", Addr: at, Protocols: []codec.Protocol{relay.NetherNet},
		Route: &relay.Route{Name: "bedrock", Upstream: &relay.Upstream{Name: "bedrock:19133"}},
	}}}
	s.prepare(all, new(config.Config))
	s.follow(all, []netip.AddrPort{at}, &config.Config{
		Listeners: []config.Listener{{Name: "bedrock"}}, Upstreams: []config.Upstream{{Name: "bedrock"}},
	})
	if lost := all.Listeners[0].Joins.Restore(time.Now(), []joining.SavedTicket{{
		ID: "1", Client: at.Addr(), Target: at, ServerUfrag: "s", ServerPassword: "p", ClientUfrag: "c",
	}}); lost != 0 {
		t.Fatal("the join was not restored")
	}
	await.Until(t, "the join is over", func() bool {
		return s.figures()["bedrock"].Stages["never-came"] == 1
	})
}

// TestJoinServersFollow opens and closes the TCP ports of joins with the listeners, and keeps a listener's joins over
// reloads.
func TestJoinServersFollow(t *testing.T) {
	at, err := freeport.Find(netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	s := newJoinServers(zerolog.Nop(), false)
	s.bans = ratelimit.NewBans(ratelimit.Terms{})
	t.Cleanup(s.close)
	settings := func(protocols ...codec.Protocol) *relay.Settings {
		route := &relay.Route{Name: "bedrock", Upstream: &relay.Upstream{Name: "bedrock:19133"}}
		all := &relay.Settings{Listeners: []relay.Listener{{
			Name: "bedrock", Addr: at, Route: route, Protocols: protocols,
		}}}
		s.prepare(all, new(config.Config))
		return all
	}
	c := &config.Config{
		Listeners: []config.Listener{{Name: "bedrock"}}, Upstreams: []config.Upstream{{Name: "bedrock", NAT: true}},
	}
	isOpen := func() bool {
		conn, err := net.DialTimeout("tcp", at.String(), time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}
	first := settings(relay.NetherNet)
	s.follow(first, []netip.AddrPort{at}, c)
	if !isOpen() {
		t.Fatal("joins are not served")
	}
	terms := s.open[at].terms.Load()
	local := netip.MustParseAddr("::ffff:192.0.2.7")
	if got := terms.candidates(local); !terms.behind || !slices.Equal(got, []netip.AddrPort{
		netip.AddrPortFrom(netip.MustParseAddr("192.0.2.7"), at.Port()),
	}) {
		t.Errorf("candidates %v, behind NAT %v", got, terms.behind)
	}
	c.Listeners[0].PublicAddresses = []config.IP{"203.0.113.9", "2001:db8::9"}
	again := settings(relay.NetherNet)
	s.follow(again, []netip.AddrPort{at}, c)
	if first.Listeners[0].Joins != again.Listeners[0].Joins {
		t.Error("a reload loses the joins")
	}
	again.Listeners[0].Joins.Count(joining.Limited)
	if f := s.figures()["bedrock"]; f.Waiting != 0 || f.Stages["limited"] != 1 || f.Stages["never-came"] != 0 {
		t.Errorf("figures: %+v", f)
	}
	if got := s.open[at].terms.Load().candidates(local); len(got) != 2 || got[1].Addr().String() != "2001:db8::9" {
		t.Errorf("candidates %v", got)
	}
	c.Listeners[0].TLSCertificate, c.Listeners[0].TLSKey = "missing.pem", "missing.key"
	s.follow(settings(relay.NetherNet), []netip.AddrPort{at}, c)
	await.Until(t, "joins without the certificate are closed", func() bool { return !isOpen() })
	c.Listeners[0].TLSCertificate, c.Listeners[0].TLSKey = "", ""
	s.follow(settings(relay.NetherNet), []netip.AddrPort{at}, c)
	if !isOpen() {
		t.Error("joins are not served again")
	}
	c.Listeners[0].Name = "lobby"
	for _, name := range []string{"lobby", "games"} { // first the listener has another name, then its route has, too
		old, renamed := s.open[at], settings(relay.NetherNet)
		renamed.Listeners[0].Name = "lobby"
		if name == "games" {
			renamed.Listeners[0].Route.Name = name
		}
		s.follow(renamed, []netip.AddrPort{at}, c)
		if _, ok := s.figures()["lobby"]; !ok || s.open[at] == old {
			t.Errorf("joins keep the names that were before %q", name)
		}
	}
	refuses, err := filter.New(filter.Rules{Sources: []filter.Source{{
		Name: "home", Prefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Verdict: ratelimit.Drop,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	s.rules.Store(refuses)
	if s.allows("bedrock", at.Addr()) || !s.allows("bedrock", netip.MustParseAddr("192.0.2.1")) {
		t.Error("rules about sources do not hold for joins")
	}
	s.follow(settings(relay.Any), []netip.AddrPort{at}, c)
	await.Until(t, "joins of a removed protocol are closed", func() bool { return !isOpen() })
	if len(s.tables) != 0 {
		t.Error("a table without joins is kept")
	}
}
