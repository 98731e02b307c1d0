//go:build interop && soak && linux

package interop_test

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/internal/testkit/await"
)

const (
	playAddr   = "10.209.0.50" // of the players, at one node at a time
	sourceAddr = "10.209.0.60" // to the game servers, at all nodes
)

// drainLoads are the players of the node that is drained: 2,020, with 1,000 messages a second.
var drainLoads = []soakLoad{
	{protocol: "raknet", port: fleetPort, steady: 400}, {protocol: "riptide-2.2", port: fleetPort, steady: 400},
	{protocol: "riptide-2.0", port: fleetPort, steady: 400}, {protocol: "enet", port: fleetPort, steady: 400},
	{protocol: "bedrock", port: copiedPort, steady: 400}, {protocol: "rudp", port: fleetPort, steady: 10, lossy: true},
	{protocol: "rtype-32", port: worldPort, steady: 10, silent: true},
}

// drainConfiguration changes a node's configuration: the node follows players, and lets many of one address play. All
// nodes have one address to the game servers. Each datagram of these reaches all nodes, and the one with the session
// takes it, as with a cluster's multicast Ethernet address.
var drainConfiguration = strings.NewReplacer(
	"limits = true", "follow = true",
	"\nservers = [\"10.", "\nsources = [\""+sourceAddr+"\"]\nmax_packets = 10000\nservers = [\"10.",
	"[limits]", `[[limit]]
of = "handshakes"
per = "address"
rate = 1000
burst = 5000
[[limit]]
of = "handshakes"
per = "network"
rate = 1000
burst = 5000
[limits]
sessions_per_address = 1000
half_open_per_address = 1000`).Replace

// TestFleetDrainInNamespaces drains a node with 2,020 players of all protocols. Their sessions move to the two other
// nodes. Then their address moves to one of these, and the node ends. No session ends, and no reliable message is lost.
func TestFleetDrainInNamespaces(t *testing.T) {
	l := newFleetLab(t)
	for i, n := range l.nodes {
		n.at.Address("lo", sourceAddr+"/32")
		n.at.Ports(20_000+10_000*i, 29_999+10_000*i) // a session keeps its port at the next node, whose checks have some, too
	}
	l.home.Neighbor(gameSwitch, sourceAddr, net.HardwareAddr{3, 0xbf, 10, 209, 0, 60})
	l.nodes[0].at.Address("eth0", playAddr+"/32")
	l.startNATS()
	l.startNodes(func(int) string { return "0.0.0.0" }, drainConfiguration)
	l.awaitFleet()
	from, to := l.nodes[0], l.nodes[1]
	players := 0
	for k, load := range drainLoads {
		load.host, load.from = playAddr, netip.MustParseAddr(playerAddr(0, k))
		load.largest, load.pause = 1000, 2*time.Second
		from.players = append(from.players, newSoakPlayers(t, load, uint64(k+1)))
		players += load.steady
	}
	await.Until(t, "known", func() bool { return to.says("/api/v1/fleet", fmt.Sprintf(`"known":%d`, players)) })
	from.waits(drainTime)
	before := from.waits(drainTime)
	began := time.Now()
	drain := start(t, nil, func([]byte) {}, tidegate, "drain", "--to-fleet", "--within", "2m", "--wait", "-c", from.file)
	await.Until(t, "moved", func() bool { return from.says("/api/v1/fleet", fmt.Sprintf(`"left":%d`, players)) })
	t.Logf("%d players moved in %v", players, time.Since(began).Round(time.Millisecond))
	moving := from.waits(drainTime)
	to.at.Address("eth0", playAddr+"/32")
	l.home.Neighbor(gameSwitch, playAddr, to.at.Hardware("eth0"))
	from.at.Unaddress("eth0", playAddr+"/32")
	changing := from.waits(drainTime)
	for _, p := range []*process{drain, from.process} {
		if err := p.wait(); err != nil {
			t.Errorf("%s: %v", p.cmd, err)
		}
	}
	after := from.waits(drainTime)
	t.Logf("longest time of a message before the drain: %v, while the sessions moved: %v, while the address moved: %v, "+
		"after the node's end: %v", before, moving, changing, after)
	l.check("after the drain", from)
	for _, s := range from.players {
		s.leaving.Store(true)
	}
	for _, s := range from.players {
		await.Until(t, "left", func() bool { return s.snapshot().open == 0 })
		if b := s.snapshot(); !s.lossy && len(b.faults(s)) > 0 {
			t.Error(b.faults(s))
		}
	}
}

// drainTime is longer than the pause of a player.
const drainTime = 3 * time.Second

// waits lets the node's players play for a time, and returns what they have waited for since the last call.
func (n *fleetNode) waits(d time.Duration) (longest waited) {
	await.Within(d, func() bool { return false })
	for _, s := range n.players {
		one := s.wait()
		longest.pause = max(longest.pause, one.pause.Round(time.Millisecond))
		if message := one.message.Round(time.Millisecond); !s.lossy && message > longest.message {
			longest.message, longest.of = message, s.name()
		}
	}
	return longest
}
