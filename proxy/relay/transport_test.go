package relay

import (
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/raknet"
	"tidegate/internal/policy"
	"tidegate/proxy/stats"
)

// TestProbesGoUnfragmented asserts that routers must not fragment datagrams to a server while the search for the
// path's MTU goes on. The search ends after a while.
func TestProbesGoUnfragmented(t *testing.T) {
	for _, c := range []struct {
		what           string
		probes, cannot bool
		whole          bool // while the search goes on
	}{
		{"a protocol that searches", true, false, true},
		{"a system that cannot forbid fragments", true, true, false},
		{"a protocol that does not search", false, false, false},
	} {
		route := defaultRoute(raknet6())
		route.Upstream.Transport.Probes = c.probes
		w := newWorld(t, 1, simnet.Weather{Latency: 10 * time.Millisecond}, raknet6(), route)
		w.proxy.fragments = c.cannot
		p := w.join(codec.Hello{})
		w.await("dialed", time.Second, func() bool { return w.proxy.dialed == 1 })
		socket := w.proxy.sockets[upstreamSocketAddr(0)]
		if socket.whole != c.whole {
			t.Errorf("%s: fragments forbidden = %v, want %v", c.what, socket.whole, c.whole)
		}
		w.await("connected", time.Second, func() bool { return p.find(codec.Connected) != nil })
		if socket.whole != c.whole {
			t.Errorf("%s: fragments forbidden = %v as the client comes in, want %v", c.what, socket.whole, c.whole)
		}
		w.await("fragments allowed", 2*stats.SampleEvery, func() bool { return !socket.whole })
	}
}

// TestUpstreamSeesWhoDials asserts that a server's cookies contain the address that the server sees.
func TestUpstreamSeesWhoDials(t *testing.T) {
	w := newWorld(t, 1, simnet.Weather{}, raknet6(), defaultRoute(raknet.New(raknet.Options{
		Cookies: raknet.CookiesOffloadedPSK, CookieSecret: [32]byte{1},
	})))
	w.connect(codec.Hello{Identity: 7})
	if len(w.servers[0].peers) != 1 {
		t.Errorf("the server saw %d clients, want 1", len(w.servers[0].peers))
	}
}

// TestServerSocketsHaveTheirBuffer asserts that a session's socket to its server has the configured buffer, in each
// mode.
func TestServerSocketsHaveTheirBuffer(t *testing.T) {
	for _, mode := range []policy.Mode{policy.ModeTerminate, policy.ModeRelay} {
		route := defaultRoute(raknet6())
		route.Mode, route.Upstream.Transport.ReceiveBuffer = mode, 3<<20
		w := newWorld(t, 1, simnet.Weather{}, raknet6(), route)
		w.join(codec.Hello{})
		w.await("dialed", time.Second, func() bool { return w.proxy.dialed == 1 })
		if got := w.proxy.sockets[upstreamSocketAddr(0)].options.ReceiveBuffer; got != 3<<20 {
			t.Errorf("mode %d: the socket is dialed with a buffer of %d", mode, got)
		}
	}
}
