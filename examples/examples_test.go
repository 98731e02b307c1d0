// Package examples tests the configurations that users copy. It has no code.
package examples

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"tidegate/codec"
	"tidegate/codec/endpoint"
	"tidegate/internal/cli"
	"tidegate/internal/testkit/kubeapi"
)

// program is this test's program, which takes the place of tidegate when TIDEGATE_MAIN is set.
var program string

func TestMain(m *testing.M) {
	if os.Getenv("TIDEGATE_MAIN") != "" {
		os.Exit(cli.Main(nil))
	}
	var err error
	if program, err = os.Executable(); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// TestCheck checks every example as it stands.
func TestCheck(t *testing.T) {
	dir := copied(t)
	for _, name := range all(t) {
		if out, err := tidegate(dir, "check", "-c", name).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// performances tests each example with traffic. An example without a test of its own gets a client of each protocol at
// each listener, which exchanges a message with the server.
var performances = map[string]func(t *testing.T){
	"access.toml":        testAccess,
	"addresses.toml":     testAddresses,
	"agones.toml":        testAgones,
	"any-game.toml":      testRelay,
	"attack.toml":        testAttack,
	"disconnect.toml":    testDisconnect,
	"failover.toml":      testFailover,
	"ipv6.toml":          testIPv6,
	"kernel.toml":        testRelay,
	"kubernetes.toml":    testKubernetes,
	"limits.toml":        testLimits,
	"load-test.toml":     testLoadTest,
	"servers.toml":       testServers,
	"two-tidegates.toml": testTwoTidegates,
	// It needs routes: TestTransparentMode of internal/cli has a network for them.
	"transparent.toml": func(t *testing.T) { t.Skip("TestTransparentMode tests it") },
}

// TestTraffic runs every example in front of game servers, with clients.
func TestTraffic(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector does not see the processes")
	}
	for _, name := range all(t) {
		t.Run(name, func(t *testing.T) {
			if test := performances[name]; test != nil {
				test(t)
				return
			}
			s := perform(t, name)
			for _, l := range s.config.Listeners {
				for _, protocol := range l.Protocols {
					if protocol == "nethernet" { // make interop joins with real clients
						continue
					}
					s.join(t, l.Name, protocol)
				}
			}
		})
	}
	for name := range performances {
		if !slices.Contains(all(t), name) {
			t.Errorf("there is no %s", name)
		}
	}
}

// testFailover kills the game server and starts it again at the same address. The player stays.
func testFailover(t *testing.T) {
	s := perform(t, "failover.toml")
	c := s.join(t, "public", "riptide-2.2")
	old := s.servers["10.0.0.5:7777"]
	if err := old.Close(); err != nil { // without a goodbye
		t.Fatal(err)
	}
	delete(s.servers, "10.0.0.5:7777")
	s.await(t, "session held")
	s.send(t, c, codec.Message{Payload: []byte("while it is away"), Mode: codec.Reliable, ID: 1})
	s.servers["10.0.0.5:7777"] = serve(t, "riptide-2.2", old.addr)
	s.until(t, "answered by the new server", func() bool { return c.Value.text == "while it is away" })
	s.talk(t, c, "and afterwards")
	if c.Value.ended {
		t.Error("the player was disconnected")
	}
}

// testDisconnect kicks a player. The file of its session appears by itself, and the command saves the session, too.
func testDisconnect(t *testing.T) {
	s := perform(t, "disconnect.toml", "/var/lib/tidegate", ".")
	s.join(t, "public", "riptide-2.2")
	s.command(t, "sessions", "kick", "1")
	s.await(t, "session saved")
	if files, err := filepath.Glob(filepath.Join(s.dir, "tidegate-*-session-1-kicked.pcapng")); len(files) != 1 {
		t.Errorf("files %q, %v", files, err)
	}
	s.command(t, "capture", "--last", "30s", "--session", "1", "-o", "1.pcapng")
	out := s.command(t, "decode", "1.pcapng")
	if !strings.Contains(out, "riptide-2.2") || !strings.Contains(out, "raknet") {
		t.Errorf("decode says\n%s", out)
	}
}

// testServers joins four players. The server of double weight gets two of them.
func testServers(t *testing.T) {
	s := perform(t, "servers.toml")
	for range 4 {
		s.join(t, "public", "raknet")
	}
	for address, want := range map[string]int{"10.0.0.5:19132": 2, "10.0.0.6:19132": 1, "10.0.0.7:19132": 1} {
		if got := len(s.servers[address].peers); got != want {
			t.Errorf("%s has %d players, want %d", address, got, want)
		}
	}
	if out := s.command(t, "upstreams", "list"); strings.Count(out, "up") < 3 {
		t.Errorf("upstreams list:\n%s", out)
	}
}

// testLimits exceeds both limits: first they only count, then they drop.
func testLimits(t *testing.T) {
	s := perform(t, "limits.toml")
	c := s.join(t, "public", "riptide-2.2")
	dropped := `tidegate_dropped_total{listener="public",reason="message-rule"}`
	s.chat(t, c)
	if matches := s.metric(t, `tidegate_rule_matches_total{kind="message",rule="chat"}`); matches < 5 {
		t.Errorf("the rule that observes has counted %v messages", matches)
	}
	if n := s.metric(t, dropped); n > 0 {
		t.Errorf("the rule that observes has dropped %v messages", n)
	}
	s.rewrite(t, strings.ReplaceAll(read(t, s.file), `"observe"`, `"drop"`))
	s.command(t, "reload")
	s.chat(t, c)
	if n := s.metric(t, dropped); n < 5 {
		t.Errorf("the rule has dropped %v messages", n)
	}
	rate := `tidegate_dropped_total{listener="public",reason="rate"}`
	s.until(t, "limited", func() bool {
		for range 1000 { // more than the burst, however slow the question behind is
			s.send(t, c, codec.Message{Payload: []byte("move"), ID: 2})
			s.Flush()
		}
		return s.metric(t, rate) > 0
	})
}

// chat sends more of chat's messages than the rule allows, and then a message of another kind.
func (s *stage) chat(t *testing.T, c *endpoint.Conn[client]) {
	t.Helper()
	for range 15 {
		s.send(t, c, codec.Message{Payload: []byte("hi"), Mode: codec.Reliable, ID: 7})
	}
	c.Value.text = ""
	s.talk(t, c, "not chat")
}

// testAccess lets this machine in, then takes it off the list.
func testAccess(t *testing.T) {
	s := perform(t, "access.toml")
	c := s.join(t, "public", "raknet")
	put(t, s.dir, "friends.txt", "198.51.100.20\n")
	s.await(t, "rules reloaded")
	s.until(t, "disconnected", func() bool { return c.Value.ended })
	if out := s.command(t, "why", "127.0.0.1"); !strings.Contains(out, "all-others") {
		t.Errorf("why does not name the rule:\n%s", out)
	}
	put(t, s.dir, "friends.txt", "127.0.0.1\n")
	s.await(t, "rules reloaded")
	s.join(t, "public", "raknet")
}

// testAddresses checks each server's view of its client.
func testAddresses(t *testing.T) {
	if !hasLocalPrefix() {
		t.Skip("127.64.0.0/10 is not local here")
	}
	geyser := &server{plain: servePlain(t, loopback)} // its first datagram is enough
	geyser.addr = geyser.plain.addr
	s := performAt(t, "addresses.toml", map[string]*server{"10.0.0.5:19132": geyser})
	player := s.dial(t, "geyser", "bedrock")
	s.until(t, "named", func() bool { return geyser.plain.named() == player.Local() })
	s.join(t, "local", "raknet")
	local := netip.MustParsePrefix("127.64.0.0/10")
	if peers := s.servers["127.0.0.1:19133"].peers; len(peers) != 1 || !local.Contains(peers[0].Addr()) {
		t.Errorf("the local server sees %v", peers)
	}
	client := echo(t, s.ports["spectrum"], "one")
	if got := s.servers["10.0.0.6:7778"].plain.named(); got != client {
		t.Errorf("the header names %v, want %v", got, client)
	}
}

// hasLocalPrefix reports whether all of 127.0.0.0/8 belongs to this machine, as on Linux.
func hasLocalPrefix() bool {
	conn, err := net.ListenPacket("udp4", "127.64.0.1:0")
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// testIPv6 joins a player with IPv6.
func testIPv6(t *testing.T) {
	conn, err := net.ListenPacket("udp6", "[::1]:0")
	if err != nil {
		t.Skip(err)
	}
	_ = conn.Close()
	s := perform(t, "ipv6.toml")
	s.join(t, "public", "raknet")
}

// testRelay exchanges datagrams of a protocol that Tidegate does not know.
func testRelay(t *testing.T) {
	s := perform(t, filepath.Base(t.Name()))
	echo(t, s.ports["public"], "\xff\xff\xff\xffgetstatus")
	if list := s.command(t, "sessions", "list", "--json"); strings.Count(list, "\n") != 1 {
		t.Errorf("the sessions are\n%s", list)
	}
}

// testKubernetes finds the servers by a small API server in place of the cluster's.
func testKubernetes(t *testing.T) {
	pod := serve(t, "riptide-2.2", loopback)
	api := kubeapi.Serve(t, "discovery.k8s.io/v1", "games", "endpointslices", "EndpointSlice")
	api.Put(kubeapi.Slice("arena-1", "arena", "game", pod.addr))
	account := fmt.Sprintf("port = \"game\"\nkubeconfig = %q", api.Kubeconfig("games"))
	s := perform(t, "kubernetes.toml", `port = "game"`, account)
	s.servers["pod"] = pod
	s.until(t, "discovered", func() bool { return strings.Contains(s.command(t, "upstreams", "list"), pod.addr.String()) })
	s.join(t, "public", "riptide-2.2")
}

// testAgones finds a GameServer of the fleet by a small API server in place of the cluster's.
func testAgones(t *testing.T) {
	server := serve(t, "riptide-2.2", loopback)
	api := kubeapi.Serve(t, "agones.dev/v1", "games", "gameservers", "GameServer")
	api.Put(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "agones.dev/v1", "kind": "GameServer",
		"metadata": map[string]any{"name": "arena-1", "labels": map[string]any{"agones.dev/fleet": "arena"}},
		"spec":     map[string]any{"ports": []any{map[string]any{"name": "game", "protocol": "UDP"}}},
		"status": map[string]any{
			"state": "Ready", "address": server.addr.Addr().String(),
			"ports":    []any{map[string]any{"name": "game", "port": int64(server.addr.Port())}},
			"counters": map[string]any{"players": map[string]any{"capacity": int64(8)}},
		},
	}})
	account := fmt.Sprintf("port = \"game\"\nkubeconfig = %q", api.Kubeconfig("games"))
	s := perform(t, "agones.toml", `port = "game"`, account)
	s.servers["arena-1"] = server
	s.until(t, "discovered", func() bool {
		return strings.Contains(s.command(t, "upstreams", "list"), server.addr.String())
	})
	s.join(t, "public", "riptide-2.2")
}

// testTwoTidegates runs the example twice in front of the same servers. Both send this machine's players to one of
// them.
func testTwoTidegates(t *testing.T) {
	first := perform(t, "two-tidegates.toml")
	second := performAt(t, "two-tidegates.toml", first.servers)
	for range 3 {
		first.join(t, "public", "bedrock")
		second.join(t, "public", "bedrock")
	}
	one, other := len(first.servers["10.0.0.5:19132"].peers), len(first.servers["10.0.0.6:19132"].peers)
	if one+other != 6 || one*other != 0 {
		t.Errorf("the servers have %d and %d players, want all at one", one, other)
	}
}

// testAttack sends garbage and new clients beyond the limits. The present players stay, and the server answers them.
func testAttack(t *testing.T) {
	s := perform(t, "attack.toml")
	c := s.join(t, "public", "raknet")
	riptide := s.join(t, "public", "riptide-2.2")
	garbage, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(s.ports["public"]))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = garbage.Close() }()
	for range 5000 {
		_, _ = garbage.Write([]byte("\x05garbage")) // RakNet's first byte without its magic
	}
	s.talk(t, c, "during the attack")
	s.talk(t, riptide, "during the attack")
	for range 20 {
		s.dial(t, "public", "raknet")
	}
	s.until(t, "limited", func() bool {
		return s.metric(t, `tidegate_dropped_total{listener="public",reason="handshakes"}`)+
			s.metric(t, `tidegate_dropped_total{listener="public",reason="half-open-source"}`) > 0
	})
	s.talk(t, c, "and after it")
}

// testLoadTest joins more players at once than the default limits allow.
func testLoadTest(t *testing.T) {
	s := perform(t, "load-test.toml", `"127.0.0.1:7777"`, `"127.0.0.1:0"`)
	var crowd []*endpoint.Conn[client]
	for range 200 {
		crowd = append(crowd, s.dial(t, "public", "riptide-2.2"))
	}
	for _, c := range crowd {
		s.until(t, "connected", func() bool { return c.Value.connected })
	}
	if n := s.metric(t, `tidegate_dropped_total{listener="public",reason="handshakes"}`); n > 0 {
		t.Errorf("%v handshakes were dropped", n)
	}
}
