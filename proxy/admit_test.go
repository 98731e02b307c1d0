package proxy

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/testkit/simnet"
	"tidegate/internal/upstream"
)

// TestFailedJoinsShutNobodyOut: on the way to the only server, all datagrams of some players' sessions are lost.
// Their joins fail, and no other, whether players, checks or nobody hear the server meanwhile.
func TestFailedJoinsShutNobodyOut(t *testing.T) {
	const joins, one = 40, 4 // of so many joins, one is lost
	for _, row := range []struct {
		name    string
		playing int
		checks  CheckBy
	}{{"players hear the server", 4, CheckNothing}, {"checks hear it", 0, CheckJoin}, {"none hears it", 0, CheckNothing}} {
		t.Run(row.name, func(t *testing.T) {
			route := defaultRoute(riptide22())
			route.Upstream.Options.Rise, route.Upstream.Options.Fall = 2, 3
			route.Upstream.Checks = Checks{By: row.checks, Interval: 2 * time.Second, Timeout: time.Second}
			w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, riptide22(), route)
			w.settings.HandshakeTimeout = 6 * time.Second
			for range row.playing {
				w.connect(codec.Hello{})
			}
			unlucky := make(map[netip.AddrPort]bool) // sockets towards the server
			w.servers[0].misses = func(from netip.AddrPort) bool { return unlucky[from] }
			var lost, lucky []*player
			for i := range joins {
				p := w.join(codec.Hello{})
				w.RunUntil(100*time.Millisecond, func() bool { return w.towardsServer(p) != nil })
				if lucky = append(lucky, p); i%one == 0 && w.towardsServer(p) != nil {
					lucky, lost = lucky[:len(lucky)-1], append(lost, p)
					unlucky[w.towardsServer(p).Addr()] = true
				}
				w.Run(time.Second)
			}
			refused := 0
			for _, p := range lucky {
				if p.gone() || p.find(codec.Connected) == nil {
					refused++
				}
			}
			w.Run(5 * time.Second)
			for _, p := range lost {
				if !p.gone() {
					t.Error("a join succeeded all of whose datagrams are lost")
				}
			}
			status := w.proxy.relay.pools.Get("arena").Status(w.Now())[0]
			t.Logf("%d of %d joins failed on the way, %d others were refused", len(lost), joins, refused)
			if heard := row.playing > 0 || row.checks != CheckNothing; refused > 0 || heard && status.State != upstream.Up {
				t.Errorf("%d players were refused for the sake of others; the server is %v", refused, status.State)
			}
		})
	}
}

// towardsServer is the socket of a player's session towards its server, or nil.
func (w *world) towardsServer(p *player) netio.Socket {
	if e := w.proxy.relay.table.Get(w.keyOf(p)); e != nil {
		return e.Value.socket
	}
	return nil
}

// TestServersThatLetNobodyInAreAvoided: a server that answers its players and lets no one else in has a rest after a
// few joins.
func TestServersThatLetNobodyInAreAvoided(t *testing.T) {
	route := defaultRoute(riptide22())
	route.Upstream.Servers = upstream.At(serverAddr)
	w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, riptide22(), route)
	w.settings.HandshakeTimeout = 6 * time.Second
	w.connect(codec.Hello{})
	known := upstreamSocketAddr(0)
	w.servers[0].misses = func(from netip.AddrPort) bool { return from != known }
	w.proxy.relay.pools.Get("arena").Discover(upstream.At(secondAddr))
	slow := 0
	for range 20 {
		begun := w.Now()
		w.connect(codec.Hello{})
		if w.Now().Sub(begun) > time.Second {
			slow++
		}
		w.Run(100 * time.Millisecond)
	}
	if sessions := len(w.servers[1].peers); slow > 4 || sessions != 20 {
		t.Errorf("%d of 20 players waited for a server that lets nobody in; %d play on the other", slow, sessions)
	}
}
