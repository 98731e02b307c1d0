package daemon

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"tidegate/internal/fleet"
	"tidegate/internal/testkit/await"
	"tidegate/internal/upstream"
	"tidegate/ratelimit"
)

// arenaNode is a node whose proxy is a Pool.
type arenaNode struct {
	upstream.Pools
	taken []*upstream.Server
}

func (n *arenaNode) Drained() map[string][]netip.AddrPort                          { return nil }
func (n *arenaNode) OnDrain(func(string, netip.AddrPort, bool) bool)               {}
func (n *arenaNode) ProtocolCounts(context.Context) ([]fleet.ProtocolCount, error) { return nil, nil }
func (n *arenaNode) ServerCounts() (all []fleet.ServerCount) {
	for _, s := range n.Get("arena").Status(time.Now()) {
		all = append(all, fleet.ServerCount{Upstream: "arena", Addr: s.Addr, Sessions: s.Sessions, State: s.State.String()})
	}
	return all
}

// admit asks for sessions, and returns how many the node admits.
func (n *arenaNode) admit(asked int) (admitted int) {
	for range asked {
		if s := n.Get("arena").Pick(time.Now(), netip.MustParseAddr("192.0.2.1"), nil); s != nil {
			n.taken = append(n.taken, s)
			admitted++
		}
	}
	return admitted
}

func (n *arenaNode) end(sessions int) {
	for _, s := range n.taken[:sessions] {
		n.Get("arena").Release(s)
	}
	n.taken = n.taken[sessions:]
}

// TestFleetMaxSessions fills a server from three nodes. Its bound holds for all together. It is exceeded only by the
// sessions that other nodes admit before they have heard.
func TestFleetMaxSessions(t *testing.T) {
	const most = 30
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	_ = l.Close()
	nats, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	nats.Start()
	t.Cleanup(nats.Shutdown)
	var nodes [3]*arenaNode
	for i := range nodes {
		nodes[i] = new(arenaNode)
		target := upstream.Target{Addr: netip.MustParseAddrPort("192.0.2.9:1"), MaxSessions: most}
		nodes[i].Get("arena").Update([]upstream.Target{target}, upstream.Options{})
		_, stop, err := fleet.Start(fleet.Options{
			Name: "test", Node: fmt.Sprint(i), Servers: []string{fmt.Sprintf("nats://127.0.0.1:%d", port)}, Replicas: 1,
			Bans: ratelimit.NewBans(ratelimit.Terms{}), Games: nodes[i], ReportEvery: 50 * time.Millisecond, Log: zerolog.Nop(),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	total := func() (n int) {
		for _, node := range nodes {
			n += len(node.taken)
		}
		return n
	}
	known := func() { // each node knows the sessions of the others
		t.Helper()
		await.Nil(t, func() error {
			for i, node := range nodes {
				if s := node.Get("arena").Status(time.Now())[0]; s.Sessions+s.Elsewhere != total() {
					return fmt.Errorf("node %d knows %d and %d sessions of %d", i, s.Sessions, s.Elsewhere, total())
				}
			}
			return nil
		})
	}
	for i := range most { // one after the other: exact
		if nodes[i%3].admit(1) != 1 {
			t.Fatalf("session %d is refused", i)
		}
		if i%10 == 9 {
			known()
		}
	}
	for i, node := range nodes {
		if n := node.admit(1); n != 0 {
			t.Errorf("node %d admits a session beyond the bound", i)
		}
	}
	nodes[0].end(1)
	known()
	for i, node := range nodes { // all at once: each node fills the last place
		if n := node.admit(5); n != 1 {
			t.Errorf("node %d admits %d sessions, want 1", i, n)
		}
	}
	known()
	for i, node := range nodes {
		if n := node.admit(5); n != 0 || total() != most+2 {
			t.Errorf("node %d admits %d sessions of %d", i, n, total())
		}
	}
	nodes[1].end(10)
	known()
	if n := nodes[2].admit(20); n != 8 {
		t.Errorf("%d sessions, want the 8 places that another node has left", n)
	}
}
