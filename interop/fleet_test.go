//go:build interop && soak && linux

package interop_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/netlab"
	"tidegate/internal/testkit/rtypegame"
)

// fleetSize is the number of nodes, and of NATS servers. Each one has a network namespace of its own.
const fleetSize = 3

// fleetLab is a fleet on switches: one for players and game servers, and two for NATS, where a node can be cut off. The
// last node and the last NATS server have a switch of their own. Without the cable between the two, the fleet is split.
type fleetLab struct {
	t       *testing.T
	nats    string // the program
	dir     string
	home    *netlab.Namespace
	rooms   [fleetSize]*netlab.Namespace // of NATS servers
	servers [fleetSize]*process
	nodes   [fleetSize]*fleetNode
}

// fleetNode is one Tidegate of the fleet.
type fleetNode struct {
	*proxy
	file    string // the configuration
	at      *netlab.Namespace
	api     *scraper
	players []*soakPlayers
}

const (
	gameSwitch, fleetSwitch, splitSwitch = "tgtest0", "tgtest1", "tgtest2"
	splitCable                           = "tgsplit0"
	homeAddr                             = "10.209.0.1"
	greedyAddr                           = "10.209.7.1" // of a network without honest players
	fleetPort, copiedPort, worldPort     = "19132", "19133", "19134"
)

// fleetProtocols are those of the players at each node, and their ports.
var fleetProtocols = []soakLoad{
	{protocol: "raknet", port: fleetPort}, {protocol: "riptide-2.2", port: fleetPort},
	{protocol: "riptide-2.0", port: fleetPort}, {protocol: "rudp", port: fleetPort, lossy: true},
	{protocol: "enet", port: fleetPort}, {protocol: "bedrock", port: copiedPort},
	{protocol: "rtype-32", port: worldPort, silent: true},
}

// playerAddr returns the address of the players of one protocol at one node.
func playerAddr(node, protocol int) string { return fmt.Sprintf("10.209.%d.%d", node+1, 100+protocol) }

func nodeAddr(i int) string { return fmt.Sprintf("10.209.0.1%d", i+1) }
func natsAddr(i int) string { return fmt.Sprintf("10.210.0.2%d", i+1) }

func newFleetLab(t *testing.T) *fleetLab {
	t.Helper()
	l := &fleetLab{t: t, dir: t.TempDir(), home: netlab.Home(t)}
	l.nats = filepath.Join(l.dir, "nats-server")
	build := exec.Command("go", "build", "-o", l.nats, "github.com/nats-io/nats-server/v2")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build nats-server: %v\n%s", err, out)
	}
	for _, name := range []string{gameSwitch, fleetSwitch, splitSwitch} {
		l.home.Switch(name)
	}
	netlab.Cable(l.home, splitCable, l.home, "tgsplit1")
	l.home.Plug(splitCable, fleetSwitch)
	l.home.Plug("tgsplit1", splitSwitch)
	for _, address := range []string{homeAddr, greedyAddr} {
		l.home.Address(gameSwitch, address+"/16")
	}
	for i := range fleetSize {
		for k := range fleetProtocols {
			l.home.Address(gameSwitch, playerAddr(i, k)+"/16")
		}
		side := fleetSwitch
		if i == fleetSize-1 {
			side = splitSwitch
		}
		l.rooms[i] = netlab.New(t, fmt.Sprint("nats", i))
		l.join(l.rooms[i], "eth0", fmt.Sprint("tgnats", i), side, natsAddr(i))
		l.nodes[i] = &fleetNode{at: netlab.New(t, fmt.Sprint("node", i))}
		l.join(l.nodes[i].at, "eth0", fmt.Sprint("tggame", i), gameSwitch, nodeAddr(i))
		l.join(l.nodes[i].at, "eth1", fmt.Sprint("tgnode", i), side, fmt.Sprintf("10.210.0.1%d", i+1))
	}
	return l
}

// join joins a namespace to a switch.
func (l *fleetLab) join(n *netlab.Namespace, device, port, to, address string) {
	l.t.Helper()
	netlab.Cable(n, device, l.home, port)
	l.home.Plug(port, to)
	n.Address(device, address+"/16")
}

// startNATS starts the NATS servers, a cluster with JetStream.
func (l *fleetLab) startNATS() {
	l.t.Helper()
	var routes []string
	for i := range fleetSize {
		routes = append(routes, "nats://"+natsAddr(i)+":6222")
	}
	for i := range fleetSize {
		l.servers[i] = start(l.t, nil, func([]byte) {}, append(l.rooms[i].Enter(), l.nats,
			"-n", fmt.Sprint("nats", i), "-a", natsAddr(i), "-p", "4222", "-js", "-sd", fmt.Sprint(l.dir, "/nats", i),
			"-cluster_name", "lab", "-cluster", "nats://"+natsAddr(i)+":6222", "-routes", strings.Join(routes, ","))...)
	}
}

// stopNATS kills the NATS servers.
func (l *fleetLab) stopNATS() {
	for _, s := range l.servers {
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		_ = s.wait()
	}
}

// startNodes starts the nodes, each with listeners at an address and a changed configuration.
func (l *fleetLab) startNodes(listen func(i int) string, change func(text string) string) {
	l.t.Helper()
	arena, copied := startSoakServerAt(l.t, "raknet", homeAddr), startSoakServerAt(l.t, "bedrock", homeAddr)
	world := newRTypeServerAt(l.t, rtypegame.Late, homeAddr+":0")
	playWorld(l.t, world)
	for i, n := range l.nodes {
		socket := fmt.Sprintf("%s/admin%d", l.dir, i)
		n.file = fmt.Sprintf("%s/node%d.toml", l.dir, i)
		text := fmt.Sprintf(fleetConfiguration, listen(i), homeAddr, arena.port, copied.port,
			portOf(l.t, world.socket.LocalAddr().String()), i, natsAddr(i), socket)
		if err := os.WriteFile(n.file, []byte(change(text)), 0o600); err != nil {
			l.t.Fatal(err)
		}
		n.proxy, n.api = &proxy{journal: make(chan journalEntry, 1)}, newScraper(socket)
		n.process = start(l.t, nil, func([]byte) {}, append(n.at.Enter(), tidegate, "run", "-c", n.file)...)
		await.Until(l.t, "ready", func() bool { return n.says("/readyz", "") })
	}
}

// play lets players of each protocol come to each node.
func (l *fleetLab) play() {
	l.t.Helper()
	for i, n := range l.nodes {
		for k, load := range fleetProtocols {
			load.host, load.from = nodeAddr(i), netip.MustParseAddr(playerAddr(i, k))
			load.steady, load.joins, load.largest = 10, 1, 1000
			n.players = append(n.players, newSoakPlayers(l.t, load, uint64(10*i+k+1)))
		}
	}
}

// fleetConfiguration names the NATS server beside the node. The node learns of the others from it.
const fleetConfiguration = `
[[listener]]
name = "public"
address = "%[1]s:19132"
protocols = ["raknet", "riptide-2.2", "riptide-2.0", "rudp", "enet"]
route = "arena"
[[listener]]
name = "copied"
address = "%[1]s:19133"
protocols = ["bedrock"]
route = "copied"
[[listener]]
name = "world"
address = "%[1]s:19134"
protocols = ["rtype-32"]
route = "world"
[[route]]
name = "arena"
upstream = "arena"
ordered = "fast"
allow_lossy = true
packet_id = 254
[[route]]
name = "copied"
upstream = "copied"
mode = "relay"
[[route]]
name = "world"
upstream = "world"
[[upstream]]
name = "arena"
protocol = "raknet"
servers = ["%[2]s:%[3]s"]
[[upstream]]
name = "copied"
protocol = "bedrock"
servers = ["%[2]s:%[4]s"]
[[upstream]]
name = "world"
protocol = "rtype-32"
servers = ["%[2]s:%[5]s"]
[limits]
idle_timeout = "10s" # a relayed player leaves in silence
[rudp]
rate = 30
[riptide]
quality_disconnect = false
[rtype]
ping_interval = "2s" # players only listen
[bans]
file = ""
[fleet]
node = "node%[6]d"
servers = ["nats://%[7]s:4222"]
limits = true
[log]
level = "warn"
[admin]
listen = "unix:%[8]s"
`

// says reports whether the node's API answers with a text.
func (n *fleetNode) says(path, want string) bool {
	answer := n.get(path)
	return answer != nil && bytes.Contains(answer, []byte(want))
}

// get returns an answer of the node's API, or nil.
func (n *fleetNode) get(path string) []byte {
	answer, err := n.api.Get("http://localhost" + path)
	if err != nil {
		return nil
	}
	defer func() { _ = answer.Body.Close() }()
	b, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return nil
	}
	return b
}

// ban bans an address.
func (n *fleetNode) ban(t *testing.T, address string) {
	t.Helper()
	answer, err := n.api.Post("http://localhost/api/v1/bans", "application/json",
		strings.NewReader(`{"prefix":"`+address+`","seconds":600,"reason":"lab"}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("ban %s: %s", address, answer.Status)
	}
}

// knows reports whether a ban is in force at the node.
func (n *fleetNode) knows(address string) bool {
	return n.says("/api/v1/bans?limit=1&search="+address+"/32", `"prefix":"`+address+`/32"`)
}

// awaits waits until a ban is in force at the node.
func (n *fleetNode) awaits(t *testing.T, address string) {
	t.Helper()
	await.Nil(t, func() error {
		if n.knows(address) {
			return nil
		}
		return fmt.Errorf("%s is not banned at %s; its fleet: %s", address, n.file, n.get("/api/v1/fleet"))
	})
}

// spread bans addresses one after the other, each at another node, and returns the times until each was in force at
// all of these nodes, the shortest first.
func spread(t *testing.T, network, bans int, nodes ...*fleetNode) (all []time.Duration) {
	t.Helper()
	for i := range bans {
		address := fmt.Sprintf("198.51.%d.%d", network, i+1)
		began := time.Now()
		nodes[i%len(nodes)].ban(t, address)
		for _, n := range nodes {
			n.awaits(t, address)
		}
		all = append(all, time.Since(began))
	}
	slices.Sort(all)
	return all
}

// awaitFleet waits until all nodes are in the fleet.
func (l *fleetLab) awaitFleet() {
	l.t.Helper()
	for _, n := range l.nodes {
		await.Until(l.t, "in the fleet", func() bool { return n.says("/api/v1/fleet", `"connected":true`) })
	}
}

// check checks the players of some nodes: no session has ended, and no message of a reliable protocol is lost.
func (l *fleetLab) check(when string, nodes ...*fleetNode) {
	l.t.Helper()
	for _, n := range nodes {
		for _, s := range n.players {
			b := s.snapshot()
			if !s.lossy && b.Ended+b.Failed+b.Missing+b.Doubled+b.Disordered > 0 || b.Joined == 0 || b.Back+b.Heard == 0 {
				l.t.Errorf("%s: players of %s: %+v", when, s.name(), b)
			}
		}
	}
}

// TestFleetInNamespaces runs three nodes and a cluster of three NATS servers, each in its own network namespace, under
// the load of all protocols. It measures how long a ban takes to hold everywhere, and what an address passes that sends
// to all nodes. It splits the fleet, stops NATS and starts it again, cuts a node off from NATS, upgrades a node, and
// kills one. No player of another node notices.
func TestFleetInNamespaces(t *testing.T) {
	l := newFleetLab(t)
	l.startNATS()
	l.startNodes(nodeAddr, func(text string) string { return text })
	l.play()
	all := l.nodes[:]
	l.awaitFleet()
	const bans = 200
	spread(t, 0, 20, all...) // the first ones find the bucket new
	took := spread(t, 1, bans, all...)
	t.Logf("a ban is in force at all nodes after %v (median), %v (p99), %v (longest of %d)", took[bans/2],
		took[bans*99/100], took[bans-1], bans)
	if p99 := took[bans*99/100]; p99 > time.Second {
		t.Errorf("p99 is %v, want at most 1 s", p99)
	}
	l.check("after the bans", all...)

	l.greed()
	l.check("beside a greedy address", all...)
	l.split()
	l.check("after the split", all...)

	l.stopNATS()
	for i, n := range all {
		n.ban(t, fmt.Sprint("203.0.113.", i+1))
	}
	l.check("without NATS", all...)
	l.startNATS()
	for _, n := range all {
		for i := range all {
			n.awaits(t, fmt.Sprint("203.0.113.", i+1))
		}
	}
	l.check("after NATS was away", all...)

	all[2].at.Down("eth1")
	await.Until(t, "cut off", func() bool { return all[2].says("/api/v1/fleet", `"connected":false`) })
	spread(t, 2, 20, all[0], all[1])
	all[2].ban(t, "203.0.113.9")
	if all[2].knows("198.51.2.1") || all[0].knows("203.0.113.9") {
		t.Error("a ban crosses the partition")
	}
	all[2].at.Up("eth1")
	all[2].awaits(t, "198.51.2.20")
	all[0].awaits(t, "203.0.113.9")
	l.check("after the partition", all...)

	l.upgrade(all[0])
	l.check("after an upgrade", all...)

	_ = syscall.Kill(-all[1].cmd.Process.Pid, syscall.SIGKILL)
	_ = all[1].wait()
	took = spread(t, 3, 50, all[0], all[2])
	t.Logf("without a node: %v (median), %v (longest of 50)", took[25], took[49])
	l.check("without a node", all[0], all[2])
}
