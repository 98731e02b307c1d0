package proxy_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/internal/netio"
	"tidegate/internal/upstream"
	"tidegate/proxy"
	"tidegate/proxy/relay"
)

// joins connects a player until the test ends.
func (r *running) joins(t *testing.T) {
	t.Helper()
	conn, err := gork.DialTimeout(r.addr.String(), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
}

// sessions returns the number of sessions at each server of the first upstream.
func (r *running) sessions() []int {
	var counts []int
	for _, s := range r.server.Upstreams()[0].Servers {
		counts = append(counts, s.Sessions)
	}
	return counts
}

// TestLoopsCountTogether asserts that sessions of all loops are spread over the servers together, and share their
// bounds.
func TestLoopsCountTogether(t *testing.T) {
	first, _ := gorkServer(t)
	second, _ := gorkServer(t)
	r := startWith(t, netio.Auto, 2, bedrock(), bedrock(), first, func(s *relay.Settings) {
		s.Listeners[0].Route.Upstream.Servers = []upstream.Target{{Addr: first, MaxSessions: 3}, {Addr: second}}
	})
	for range 6 {
		r.joins(t)
	}
	if got := r.sessions(); got[0] != 3 || got[1] != 3 {
		t.Errorf("sessions at the servers: %v, want 3 each", got)
	}
	r.joins(t)
	if err := r.server.DrainServer("arena", second); err != nil {
		t.Fatal(err)
	}
	if got := r.server.Upstreams()[0].Servers[1]; got.State != upstream.Draining || got.Sessions != 4 {
		t.Errorf("the drained server: %+v", got)
	}
	if _, err := gork.DialTimeout(r.addr.String(), 3*time.Second); err == nil {
		t.Error("somebody was let in with one server full and the other drained")
	}
	if err := r.server.UndrainServer("arena", second); err != nil {
		t.Fatal(err)
	}
	r.joins(t)
	for _, err := range []error{
		r.server.DrainServer("arena", netip.MustParseAddrPort("127.0.0.1:1")), r.server.DrainServer("nobody", second),
	} {
		if !errors.Is(err, upstream.ErrUnknown) && !errors.Is(err, proxy.ErrNoUpstream) {
			t.Errorf("drain of nobody: %v", err)
		}
	}
}

// TestDiscoveredServers asserts that servers may appear and disappear while the proxy runs.
func TestDiscoveredServers(t *testing.T) {
	first, _ := gorkServer(t)
	r := startWith(t, netio.Auto, 1, bedrock(), bedrock(), first, func(s *relay.Settings) {
		s.Listeners[0].Route.Upstream.Servers = nil
	})
	if _, err := gork.DialTimeout(r.addr.String(), 2*time.Second); err == nil {
		t.Error("somebody was let in without a server")
	}
	r.server.Discovered("arena", []upstream.Target{{Addr: first}})
	r.joins(t)
	r.server.Discovered("arena", nil)
	if got := r.server.Upstreams()[0].Servers; len(got) != 1 || got[0].State != upstream.Gone || got[0].Sessions != 1 {
		t.Errorf("the server that vanished: %+v", got)
	}
}

// TestOnDrain tells the fleet of each drain, also of one with a move, and lets the fleet drain. An operator may undrain
// a server that only other nodes list.
func TestOnDrain(t *testing.T) {
	first, _ := gorkServer(t)
	r := startWith(t, netio.Auto, 1, bedrock(), bedrock(), first, func(*relay.Settings) {})
	var told []string
	r.server.OnDrain(func(name string, server netip.AddrPort, drain bool) bool {
		told = append(told, fmt.Sprint(name, server == first, drain))
		return server != first
	})
	elsewhere := netip.MustParseAddrPort("127.0.0.1:1")
	for _, err := range []error{
		r.server.DrainServer("arena", first), r.server.UndrainServer("arena", first),
		r.server.UndrainServer("arena", elsewhere), r.server.UndrainServer("unknown", elsewhere),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := r.server.TransferServer(t.Context(), "arena", first); err != nil {
		t.Error(err)
	}
	if err := r.server.DrainServer("arena", elsewhere); !errors.Is(err, upstream.ErrUnknown) {
		t.Errorf("drain of an unknown server: %v", err)
	}
	want := []string{"arenatrue true", "arenatrue false", "arenafalse false", "unknownfalse false", "arenatrue true"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	r.server.SetFleetDrain("arena", first, time.Time{})
	if got := r.server.Upstreams()[0].Servers[0]; got.State == upstream.Draining {
		t.Errorf("the server is still drained: %+v", got)
	}
}
