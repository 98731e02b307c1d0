package cli

import (
	"encoding/json"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/endpoint"
	"tidegate/internal/protocols"
	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/freeport"
)

// countingServer runs a game server that counts the clients that have joined. It stops with the test.
func countingServer(t *testing.T, protocol string) (addr netip.AddrPort, joined *atomic.Int32) {
	t.Helper()
	joined = new(atomic.Int32)
	game, err := endpoint.New(endpoint.Options[struct{}]{Event: func(_ *endpoint.Conn[struct{}], e *codec.Event) {
		if e.Kind == codec.Connected {
			joined.Add(1)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	free := netip.MustParseAddrPort("127.0.0.1:0")
	at, err := game.Listen(protocols.Find(protocol).Default(), free, endpoint.SocketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	var ending atomic.Bool
	go func() {
		defer close(stopped)
		for !ending.Load() && game.Turn(game.Now().Add(await.Patience)) == nil {
		}
	}()
	t.Cleanup(func() {
		ending.Store(true)
		game.Wake()
		<-stopped
		_ = game.Close()
	})
	return at.Addr(), joined
}

// TestPingJoinsNoGame pings servers of each protocol, directly and through Tidegate. No game may see a client, and
// Tidegate drops nothing, unless --join asks for it.
func TestPingJoinsNoGame(t *testing.T) {
	for _, protocol := range []string{"riptide-2.0", "riptide-2.2", "enet"} {
		server, joined := countingServer(t, protocol)
		p := startProcess(t, "[[listener]]\nname = \"a\"\naddress = \"127.0.0.1:0\"\nprotocols = [\""+protocol+"\"]\n"+
			"route = \"a\"\n[[route]]\nname = \"a\"\nupstream = \"a\"\n[[upstream]]\nname = \"a\"\nprotocol = \""+protocol+
			"\"\nservers = [\""+server.String()+"\"]\n")
		for _, at := range []string{server.String(), p.addr} {
			code, stdout, stderr := tidegate(t, "ping", at, "-p", protocol)
			if code != 0 || !strings.Contains(stdout, "online, accepts clients") {
				t.Errorf("%s: code %d, says %s%s", protocol, code, stdout, stderr)
			}
		}
		if n := joined.Load(); n > 0 {
			t.Errorf("%s: the game has seen %d clients", protocol, n)
		}
		_, stdout, _ := tidegate(t, "why", "127.0.0.1", "--json", "-c", p.file)
		if !strings.Contains(stdout, `"drops":[]`) {
			t.Errorf("%s: after two pings: %s", protocol, stdout)
		}
		if code, _, stderr := tidegate(t, "ping", "--join", server.String(), "-p", protocol); code != 0 {
			t.Errorf("%s: --join: code %d, says %s", protocol, code, stderr)
		}
		await.Until(t, "a client that joins", func() bool { return joined.Load() == 1 })
	}
	code, _, stderr := tidegate(t, "ping", "127.0.0.1:9", "-p", "rudp")
	if code != 2 || !strings.Contains(stderr, "--join") {
		t.Errorf("rudp: code %d, says %s", code, stderr)
	}
}

// TestPingAsksAListenerInItsProtocol pings a listener of Riptide alone without naming the protocol. Tidegate's own
// question must leave no trace in why, also from a machine that cannot know the listener's protocol.
func TestPingAsksAListenerInItsProtocol(t *testing.T) {
	server, _ := countingServer(t, "riptide-2.2")
	at := freeport.Loopback(t).String()
	p := startProcess(t, strings.NewReplacer(`["bedrock", "riptide-2.2"]`, `["riptide-2.2"]`, "127.0.0.1:0", at,
		`protocol = "bedrock"`, `protocol = "riptide-2.2"`).Replace(bridgeConfig(server.String())))
	for _, admin := range []string{"unix:" + p.admin, "unix:/nowhere"} {
		t.Setenv(adminVariable, admin)
		if code, stdout, stderr := tidegate(t, "ping", at); code != 0 || !strings.Contains(stdout, "accepts clients") {
			t.Errorf("code %d, says %s%s", code, stdout, stderr)
		}
		_, stdout, _ := tidegate(t, "why", "127.0.0.1", "--json", "-c", p.file)
		if !strings.Contains(stdout, `"drops":[]`) {
			t.Errorf("admin at %s: %s", admin, stdout)
		}
	}
}

// TestPingOfADesertedListener pings a RakNet listener whose only server is down: its answer to a list does not tell.
func TestPingOfADesertedListener(t *testing.T) {
	at := freeport.Loopback(t).String()
	p := startProcess(t, "[[listener]]\nname = \"a\"\naddress = \""+at+"\"\nprotocols = [\"raknet\"]\nroute = \"a\"\n"+
		"[[route]]\nname = \"a\"\nupstream = \"a\"\n[[upstream]]\nname = \"a\"\nprotocol = \"raknet\"\n"+
		"servers = [\"127.0.0.1:9\"]\n")
	t.Setenv(adminVariable, "unix:"+p.admin)
	await.Until(t, "the server's end", func() bool {
		code, stdout, _ := tidegate(t, "ping", at)
		return code == 1 && strings.Contains(stdout, "refuses clients: no server is up")
	})
	var a answer
	_, stdout, _ := tidegate(t, "ping", at, "--json")
	err := json.Unmarshal([]byte(stdout), &a)
	if err != nil || a.Text != `""` || !a.Refuses || a.Cause != "no server is up" {
		t.Errorf("%+v, %v; want the text of the list", a, err)
	}
}

// TestPingWaitsNoLonger: a silent admin server takes part of the time that a ping may take.
func TestPingWaitsNoLonger(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "admin")
	silent, err := net.Listen("unix", socket) // it accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	t.Setenv(adminVariable, "unix:"+socket)
	mute, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mute.Close() }()
	began := time.Now()
	code, _, stderr := tidegate(t, "ping", mute.LocalAddr().String(), "--timeout", "2s")
	if took := time.Since(began); code != 1 || took > 3500*time.Millisecond {
		t.Errorf("code %d after %v: %s", code, took, stderr)
	}
}
