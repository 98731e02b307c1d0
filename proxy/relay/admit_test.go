package relay

import (
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/netio"
	"tidegate/internal/upstream"
)

// TestFailedJoinsShutNobodyOut loses all datagrams to the only server for some players' sessions. The joins of these
// players fail. All other joins succeed, whether players, checks or none of them hear the server.
func TestFailedJoinsShutNobodyOut(t *testing.T) {
	const joins, one = 40, 4 // one join of each four is lost
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
			unlucky := make(map[netip.AddrPort]bool) // sockets to the server
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

// towardsServer returns the socket of a player's session to its server, or nil.
func (w *world) towardsServer(p *player) netio.Socket {
	if e := w.proxy.relay.table.peek(w.keyOf(p)); e != nil {
		return e.Value.socket
	}
	return nil
}

// TestServersThatLetNobodyInAreAvoided asserts that a server rests after a few failed joins, though it answers its
// present players.
func TestServersThatLetNobodyInAreAvoided(t *testing.T) {
	route := defaultRoute(riptide22())
	route.Upstream.Servers = []upstream.Target{{Addr: serverAddr}}
	w := newWorld(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, riptide22(), route)
	w.settings.HandshakeTimeout = 6 * time.Second
	w.connect(codec.Hello{})
	known := upstreamSocketAddr(0)
	w.servers[0].misses = func(from netip.AddrPort) bool { return from != known }
	w.proxy.relay.pools.Get("arena").Discover([]upstream.Target{{Addr: secondAddr}})
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
