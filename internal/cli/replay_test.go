package cli

import (
	"encoding/json"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/codec"
	"tidegate/internal/protocols"
	"tidegate/internal/replay"
	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/rakserver"
)

// capturedGame plays a game of a protocol through a proxy and returns the capture.
func capturedGame(t *testing.T, p *process, play func(t *testing.T)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "game.pcapng")
	c := startCapture(t, p, "--client", "127.0.0.0/8", "-o", path)
	play(t)
	p.await(t, "session ended")
	await.Until(t, "both goodbyes are in the file", func() bool {
		captured := readCapture(t, path)
		return len(captured["client outbound"]) > 3 && len(captured["upstream outbound"]) > 3
	})
	c.stop()
	if got := <-c.ended; got.code != 0 {
		t.Fatal(got.stderr)
	}
	return path
}

// replayed replays a capture and returns the report.
func replayed(t *testing.T, code int, args ...string) *replay.Report {
	t.Helper()
	all := append([]string{"replay", "--json", "--speed", "max", "--wait", "500ms"}, args...)
	got, stdout, stderr := tidegate(t, all...)
	r := new(replay.Report)
	if got != code || json.Unmarshal([]byte(stdout), r) != nil {
		t.Fatalf("code %d, want %d; says\n%s%s", got, code, stdout, stderr)
	}
	return r
}

// TestReplay records games of three protocols through the proxy with independent peers. Played again, against the proxy
// and against the game server itself, each of them is the same. A server that answers otherwise makes a difference.
func TestReplay(t *testing.T) {
	for name, c := range map[string]struct {
		config   func(server string) string
		protocol string
		play     func(t *testing.T, addr string)
	}{
		"bedrock": {bridgeConfig, "bedrock", func(t *testing.T, addr string) { playRakNet(t, addr, new(wiretap)) }},
		"riptide": {bridgeConfig, "riptide-2.2", func(t *testing.T, addr string) { playRiptide(t, addr, new(wiretap)) }},
		"raknet": {func(server string) string {
			return strings.Replace(bridgeConfig(server), `"bedrock", "riptide-2.2"`, `"raknet", "riptide-2.2"`, 1)
		}, "raknet", playStock},
	} {
		t.Run(name, func(t *testing.T) {
			server := echoServer(t)
			p := startProcess(t, c.config(server))
			path := capturedGame(t, p, func(t *testing.T) { c.play(t, p.addr) })
			r := replayed(t, 0, path, "--to", p.addr)
			if len(r.Conversations) != 1 || r.Conversations[0].Sent == 0 || r.Conversations[0].Answered == 0 ||
				r.Conversations[0].Protocol != c.protocol || r.Conversations[0].Session == "" {
				t.Errorf("against the proxy: %+v", r)
			}
			r = replayed(t, 0, path, "--to", server, "--upstream")
			if len(r.Conversations) != 1 || r.Conversations[0].Protocol != "bedrock" || r.Conversations[0].Answered == 0 {
				t.Errorf("against the server: %+v", r)
			}
			other := rakserver.Start(t, func(conn *gork.Conn) {
				for _, err := conn.ReadPacket(); err == nil; _, err = conn.ReadPacket() {
					_, _ = conn.Write([]byte("\xfeanother answer"))
				}
			})
			r = replayed(t, 1, path, "--to", other.String(), "--upstream")
			one := r.Conversations[0]
			if one.Same || len(one.Missing) != 1 || len(one.New) != 1 || one.Captured != one.Answered {
				t.Errorf("against another server: %+v", r)
			}
		})
	}
}

// playStock joins with our own client of RakNet 4, sends a greeting, and leaves after the answer.
func playStock(t *testing.T, addr string) {
	t.Helper()
	m := codec.Message{Payload: []byte(greeting), Mode: codec.ReliableOrdered}
	playCodec(t, protocols.Find("raknet").Default(), addr, new(wiretap), m)
}

// TestReplayMisuse names each fault of the command line.
func TestReplayMisuse(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, 2, "want one FILE"},
		{[]string{"x"}, 2, "want --to HOST:PORT"},
		{[]string{"x", "--to", "127.0.0.1:1", "--speed", "fast"}, 2, `--speed "fast": want 0.001 to 1000, or max`},
		{[]string{"x", "--to", "127.0.0.1:1", "--speed", "-1"}, 2, "want 0.001 to 1000"},
		{[]string{"x", "--to", "127.0.0.1:1", "--protocol", "tcp"}, 2, `--protocol "tcp": want`},
		{[]string{"x", "--to", "127.0.0.1:1", "--port", "0"}, 2, "--port 0: want 1 to 65535"},
		{[]string{"missing", "--to", "127.0.0.1:1"}, 1, "no such file"},
		{[]string{handshake, "--to", "127.0.0.1:1", "--upstream"}, 1, "no conversation on that side of the proxy"},
	} {
		code, stdout, stderr := tidegate(t, append([]string{"replay"}, c.args...)...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.says) {
			t.Errorf("replay %v: code %d, says %s%s; want %d and %q", c.args, code, stdout, stderr, c.code, c.says)
		}
	}
}

// TestReplayToNoServer differs: nothing answers.
func TestReplayToNoServer(t *testing.T) {
	t.Parallel()
	silent, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	began := time.Now()
	code, stdout, _ := separately(t, "replay", handshake, "--to", silent.LocalAddr().String(), "--speed", "max")
	if code != 1 || !strings.Contains(stdout, "the server did not let the client in") {
		t.Errorf("after %v code %d, says\n%s", time.Since(began), code, stdout)
	}
}
