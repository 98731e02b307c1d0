//go:build interop && soak && linux

package interop_test

import (
	"fmt"
	"net/netip"
	"os/exec"
	"time"

	"tidegate/internal/testkit/await"
)

// split cuts the last NATS server and the last node off from the others, which keep the majority of the NATS cluster.
// The node stays connected to its server. Each side bans an address. Then the network is whole again.
func (l *fleetLab) split() {
	t, most, rest := l.t, l.nodes[:fleetSize-1], l.nodes[fleetSize-1]
	t.Helper()
	for i, n := range l.nodes {
		if !n.says("/api/v1/fleet", fmt.Sprintf(`"server":"nats%d"`, i)) {
			t.Fatalf("node %d is not connected to the NATS server beside it", i)
		}
	}
	l.home.Down(splitCable)
	began := time.Now()
	rest.ban(t, "203.0.113.21")
	await.Until(t, "without a majority", func() bool { return rest.says("/api/v1/fleet", `"current":false`) })
	t.Logf("split: the cut-off node notices after %v", time.Since(began))
	if !rest.says("/api/v1/fleet", `"connected":true`) {
		t.Error("the cut-off node has lost its NATS server")
	}
	slowest := time.Duration(0)
	for i := 20; time.Since(began) < splitTime; i++ {
		slowest = max(slowest, spread(t, i, 1, most...)[0])
		await.Within(splitTime/60, func() bool { return false })
	}
	for _, n := range most {
		await.Until(t, "in the majority", func() bool { return n.says("/api/v1/fleet", `"current":true`) })
	}
	took := spread(t, 11, 50, most...)
	t.Logf("split: a ban of the majority held there after %v at most in the first %v, and then after %v (median), "+
		"%v (longest of 50)", slowest, splitTime, took[25], took[49])
	if took[49] > time.Second {
		t.Errorf("a ban of the majority took %v, want at most 1 s", took[49])
	}
	if !rest.knows("203.0.113.21") || rest.knows("198.51.11.1") || most[0].knows("203.0.113.21") {
		t.Error("a ban is lost at its own side, or crosses the split")
	}
	l.check("in the split", l.nodes[:]...)
	l.home.Up(splitCable)
	healed := time.Now()
	for _, n := range l.nodes {
		for _, address := range []string{"203.0.113.21", "198.51.20.1", "198.51.11.1", "198.51.11.50"} {
			n.awaits(t, address)
		}
	}
	t.Logf("split: both sides have all bans %v after it", time.Since(healed))
}

// splitTime is the time in which the majority elects leaders, and its nodes notice that they have lost their readers.
const splitTime = 15 * time.Second

// greed lets one address join at all nodes as fast as it can, and leave at once. It gets about the budget of one node.
func (l *fleetLab) greed() {
	t := l.t
	t.Helper()
	const rate, burst = 10, 40 // of handshakes per address: the default
	var greedy []*soakPlayers
	began := time.Now()
	for i := range l.nodes {
		greedy = append(greedy, newSoakPlayers(t, soakLoad{
			protocol: "raknet", host: nodeAddr(i), port: fleetPort, from: netip.MustParseAddr(greedyAddr),
			joins: 2 * rate, stay: time.Millisecond, silent: true,
		}, uint64(100+i)))
	}
	await.Within(greedTime, func() bool { return false })
	passed := 0
	for _, g := range greedy {
		passed += g.snapshot().Joined
	}
	budget := burst + rate*time.Since(began).Seconds()
	for _, g := range greedy {
		g.leaving.Store(true)
	}
	t.Logf("one address joined at three nodes: %d times, %.2f budgets of a node", passed, float64(passed)/budget)
	if times := float64(passed) / budget; times < 0.7 || times > 1.5 {
		t.Errorf("%.2f budgets have passed, want about 1", times)
	}
}

// greedTime is long enough for nodes to charge what they let pass before they heard of the others.
const greedTime = 20 * time.Second

// upgrade replaces a node's process while players play.
func (l *fleetLab) upgrade(n *fleetNode) {
	t := l.t
	t.Helper()
	began := time.Now()
	if out, err := exec.Command(tidegate, "upgrade", "-c", n.file).CombinedOutput(); err != nil {
		t.Fatalf("upgrade: %v: %s", err, out)
	}
	took := time.Since(began)
	await.Until(t, "in the fleet again", func() bool { return n.says("/api/v1/fleet", `"current":true`) })
	if !n.knows("198.51.2.20") {
		t.Error("the upgraded node has lost a ban")
	}
	t.Logf("an upgrade took %v; %v later, the successor is in the fleet", took, time.Since(began)-took)
	back := make([]int, len(n.players))
	for i, s := range n.players {
		b := s.snapshot()
		back[i] = b.Back + b.Heard
	}
	for i, s := range n.players {
		await.Until(t, "played on", func() bool { b := s.snapshot(); return b.Back+b.Heard > back[i]+5 })
	}
}
