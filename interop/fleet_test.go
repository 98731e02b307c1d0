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
)

// fleetSize is the number of nodes, and of NATS servers. Each one has a network namespace of its own.
const fleetSize = 3

// fleetLab is a fleet on two switches: one for players and game servers, and one for NATS, where a node can be cut off.
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
	at      *netlab.Namespace
	api     *scraper
	players []*soakPlayers
}

const (
	gameSwitch, fleetSwitch = "tgtest0", "tgtest1"
	homeAddr                = "10.209.0.1"
	fleetPort               = "19132"
)

// playerAddrs is the number of players' addresses: those of one protocol at one node share one.
const playerAddrs = 5 * fleetSize

func playerAddr(i int) string { return fmt.Sprint("10.209.0.", 100+i) }

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
	for _, name := range []string{gameSwitch, fleetSwitch} {
		l.home.Switch(name)
	}
	l.home.Address(gameSwitch, homeAddr+"/24")
	for i := range playerAddrs {
		l.home.Address(gameSwitch, playerAddr(i)+"/24")
	}
	for i := range fleetSize {
		l.rooms[i] = netlab.New(t, fmt.Sprint("nats", i))
		l.join(l.rooms[i], "eth0", fmt.Sprint("tgnats", i), fleetSwitch, natsAddr(i))
		l.nodes[i] = &fleetNode{at: netlab.New(t, fmt.Sprint("node", i))}
		l.join(l.nodes[i].at, "eth0", fmt.Sprint("tggame", i), gameSwitch, nodeAddr(i))
		l.join(l.nodes[i].at, "eth1", fmt.Sprint("tgnode", i), fleetSwitch, fmt.Sprintf("10.210.0.1%d", i+1))
	}
	return l
}

// join joins a namespace to a switch.
func (l *fleetLab) join(n *netlab.Namespace, device, port, to, address string) {
	l.t.Helper()
	netlab.Cable(n, device, l.home, port)
	l.home.Plug(port, to)
	n.Address(device, address+"/24")
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

// startNodes starts the nodes, and players of each protocol at each node.
func (l *fleetLab) startNodes() {
	l.t.Helper()
	arena := startSoakServerAt(l.t, "raknet", homeAddr)
	for i, n := range l.nodes {
		file, socket := fmt.Sprintf("%s/node%d.toml", l.dir, i), fmt.Sprintf("%s/admin%d", l.dir, i)
		text := fmt.Sprintf(fleetConfiguration, nodeAddr(i), fleetPort, arena.port, homeAddr, i, natsAddr(0), natsAddr(1),
			natsAddr(2), socket)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			l.t.Fatal(err)
		}
		n.proxy, n.api = &proxy{journal: make(chan journalEntry, 1)}, newScraper(socket)
		n.process = start(l.t, nil, func([]byte) {}, append(n.at.Enter(), tidegate, "run", "-c", file)...)
		await.Until(l.t, "ready", func() bool { return n.says("/readyz", "") })
		for k, protocol := range []string{"raknet", "riptide-2.2", "riptide-2.0", "rudp", "enet"} {
			n.players = append(n.players, newSoakPlayers(l.t, soakLoad{
				protocol: protocol, host: nodeAddr(i), port: fleetPort, from: netip.MustParseAddr(playerAddr(5*i + k)),
				steady: 10, joins: 1, largest: 1000, lossy: protocol == "rudp",
			}, uint64(10*i+k+1)))
		}
	}
}

const fleetConfiguration = `
[[listener]]
name = "public"
address = "%[1]s:%[2]s"
protocols = ["raknet", "riptide-2.2", "riptide-2.0", "rudp", "enet"]
route = "arena"
[[route]]
name = "arena"
upstream = "arena"
ordered = "fast"
allow_lossy = true
packet_id = 254
[[upstream]]
name = "arena"
protocol = "raknet"
servers = ["%[4]s:%[3]s"]
[rudp]
rate = 30
[riptide]
quality_disconnect = false
[bans]
file = ""
[fleet]
node = "node%[5]d"
servers = ["nats://%[6]s:4222", "nats://%[7]s:4222", "nats://%[8]s:4222"]
[log]
level = "warn"
[admin]
listen = "unix:%[9]s"
`

// says reports whether the node's API answers with a text.
func (n *fleetNode) says(path, want string) bool {
	answer, err := n.api.Get("http://localhost" + path)
	if err != nil {
		return false
	}
	defer func() { _ = answer.Body.Close() }()
	b, err := io.ReadAll(answer.Body)
	return err == nil && answer.StatusCode == http.StatusOK && bytes.Contains(b, []byte(want))
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
	return n.says("/api/v1/bans?limit=1&search="+address, `"total":1`)
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
			await.Until(t, "banned", func() bool { return n.knows(address) })
		}
		all = append(all, time.Since(began))
	}
	slices.Sort(all)
	return all
}

// check checks the players of some nodes: no session has ended, and no message of a reliable protocol is lost.
func (l *fleetLab) check(when string, nodes ...*fleetNode) {
	l.t.Helper()
	for _, n := range nodes {
		for _, s := range n.players {
			b := s.snapshot()
			if !s.lossy && b.Ended+b.Failed+b.Missing+b.Doubled+b.Disordered > 0 || b.Joined == 0 {
				l.t.Errorf("%s: players of %s: %+v", when, s.name(), b)
			}
		}
	}
}

// TestFleetInNamespaces runs three nodes and a cluster of three NATS servers, each in its own network namespace, under
// the load of several protocols. It measures how long a ban takes to hold everywhere. It stops NATS and starts it
// again, cuts a node off from NATS, and kills a node. No player of another node notices.
func TestFleetInNamespaces(t *testing.T) {
	l := newFleetLab(t)
	l.startNATS()
	l.startNodes()
	all := l.nodes[:]
	for _, n := range all {
		await.Until(t, "in the fleet", func() bool { return n.says("/api/v1/fleet", `"connected":true`) })
	}
	const bans = 200
	spread(t, 0, 20, all...) // the first ones find the bucket new
	took := spread(t, 1, bans, all...)
	t.Logf("a ban is in force at all nodes after %v (median), %v (p99), %v (longest of %d)", took[bans/2],
		took[bans*99/100], took[bans-1], bans)
	if p99 := took[bans*99/100]; p99 > time.Second {
		t.Errorf("p99 is %v, want at most 1 s", p99)
	}
	l.check("after the bans", all...)

	l.stopNATS()
	for i, n := range all {
		n.ban(t, fmt.Sprint("203.0.113.", i+1))
	}
	l.check("without NATS", all...)
	l.startNATS()
	for _, n := range all {
		for i := range all {
			await.Until(t, "banned", func() bool { return n.knows(fmt.Sprint("203.0.113.", i+1)) })
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
	await.Until(t, "banned", func() bool { return all[2].knows("198.51.2.20") && all[0].knows("203.0.113.9") })
	l.check("after the partition", all...)

	_ = syscall.Kill(-all[1].cmd.Process.Pid, syscall.SIGKILL)
	_ = all[1].wait()
	took = spread(t, 3, 50, all[0], all[2])
	t.Logf("without a node: %v (median), %v (longest of 50)", took[25], took[49])
	l.check("without a node", all[0], all[2])
}
