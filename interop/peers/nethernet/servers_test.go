package nethernet

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pion/webrtc/v4"
	"github.com/sandertv/go-raknet"

	"tidegate/internal/testkit/await"
)

// startBefore runs Tidegate before a NetherNet server, for clients of RakNet and of NetherNet without a login.
func startBefore(t *testing.T, server netip.AddrPort, keys ...string) (netip.AddrPort, *output) {
	t.Helper()
	at, log, _ := runTidegate(t, `
[loop]
count = 2
[admin]
listen = "off"
[raknet]
max_parts = 2000
[[listener]]
name = "bedrock"
address = "%s"
protocols = ["bedrock", "nethernet"]
route = "bedrock"
identity = "none"
`+fmt.Sprintf(`
[[route]]
name = "bedrock"
upstream = "bedrock"
pong = "upstream"
[[upstream]]
name = "bedrock"
protocol = "nethernet"
servers = ["%s"]
health = "http"
%s
`, server, strings.Join(keys, "\n")))
	return at, log
}

// cable is a client's socket that a test can cut.
type cable struct{ conn net.Conn }

func (c *cable) DialContext(ctx context.Context, network, at string) (conn net.Conn, err error) {
	c.conn, err = new(net.Dialer).DialContext(ctx, network, at)
	return c.conn, err
}

func dialRakNet(t *testing.T, at netip.AddrPort) (*raknet.Conn, *cable) {
	t.Helper()
	c := new(cable)
	conn, err := raknet.Dialer{UpstreamDialer: c}.Dial(at.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn, c
}

// echoRakNet sends numbered messages and a large one, and wants all back in order.
func echoRakNet(t *testing.T, conn *raknet.Conn, n int, sizes ...int) {
	t.Helper()
	var all [][]byte
	for i := range n {
		all = append(all, fmt.Appendf(nil, "\xfemessage %d", i))
	}
	for _, size := range sizes {
		all = append(all, append([]byte{0xfe}, bytes.Repeat([]byte("tide"), size/4+1)[:size]...))
	}
	go func() {
		for _, m := range all {
			_, _ = conn.Write(m)
		}
	}()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	for i, want := range all {
		if got, err := conn.ReadPacket(); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("message %d has %d bytes, want %d: %v", i, len(got), len(want), err)
		}
	}
}

// awaitState waits until the latest connection of the server is in a state.
func (g *game) awaitState(want webrtc.PeerConnectionState) {
	g.t.Helper()
	await.Until(g.t, "the server's connection is "+want.String(), func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.states) > 0 && g.states[len(g.states)-1] == want
	})
}

// TestServers plays with go-raknet and with pion on a server of pion, which is a full or a lite agent of ICE: ordered
// messages, large ones, unreliable ones, and the end from both sides. RakNet's server list shows the server's state.
func TestServers(t *testing.T) {
	for name, lite := range map[string]bool{"full": false, "lite": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKeys(t)
			k.client = nil // Tidegate makes its own
			g := startGame(t, k, lite)
			at, log := startBefore(t, g.http)
			await.Until(t, "the list has the server", func() bool {
				pong, err := raknet.Ping(at.String())
				return err == nil && strings.HasPrefix(string(pong), "MCPE;echo;")
			})
			conn, _ := dialRakNet(t, at)
			echoRakNet(t, conn, 1000, 10_000, 300_000, 700_000)
			g.awaitState(webrtc.PeerConnectionStateConnected)
			_ = conn.Close()
			g.awaitState(webrtc.PeerConnectionStateClosed)

			own := newKeys(t)
			own.server = nil
			p := join(t, own, at.String())
			p.echo(1000)
			for _, size := range []int{1, 10_000, 262_143, 700_000} {
				large := bytes.Repeat([]byte("tide"), size/4+1)[:size]
				send(t, p.reliable, large)
				if got := p.receive(p.got); !bytes.Equal(got, large) {
					t.Fatalf("%d bytes became %d", size, len(got))
				}
			}
			await.Until(t, "an unreliable message came back", func() bool {
				send(t, p.unreliable, []byte("perhaps"))
				select {
				case m := <-p.gotUnreliable:
					return string(m) == "perhaps"
				case <-time.After(time.Second):
					return false
				}
			})
			_ = p.pc.Close()
			g.awaitState(webrtc.PeerConnectionStateClosed)

			conn, _ = dialRakNet(t, at) // and now the server ends it
			echoRakNet(t, conn, 10)
			g.mu.Lock()
			last := g.pcs[len(g.pcs)-1]
			g.mu.Unlock()
			_ = last.Close()
			_ = conn.SetReadDeadline(time.Now().Add(patience))
			if _, err := conn.ReadPacket(); err == nil {
				t.Error("the player was not told")
			}
			await.Until(t, "all sessions have ended", func() bool {
				return strings.Count(log.String(), "session ended") == 3
			})
		})
	}
}

// TestServersCut cuts a player of RakNet off: its server learns of it.
func TestServersCut(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	k.client = nil
	g := startGame(t, k, false)
	at, _ := startBefore(t, g.http)
	conn, cable := dialRakNet(t, at)
	echoRakNet(t, conn, 10)
	_ = cable.conn.Close()
	g.awaitState(webrtc.PeerConnectionStateClosed)
}

const serverProcess = "TIDEGATE_PION_SERVER"

// TestServerProcess is no test: it is a server in a process of its own, which another test kills.
func TestServerProcess(t *testing.T) {
	if os.Getenv(serverProcess) == "" {
		t.Skip("it is for TestServersKilled")
	}
	k := newKeys(t)
	k.client = nil
	fmt.Println("at", startGame(t, k, false).http)
	<-t.Context().Done()
}

// startServerProcess runs TestServerProcess, and returns the address of its server.
func startServerProcess(t *testing.T) (server netip.AddrPort, kill func()) {
	t.Helper()
	program := exec.Command(os.Args[0], "-test.run=^TestServerProcess$")
	program.Env = append(os.Environ(), serverProcess+"=1")
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = program.Process.Kill()
		_ = program.Wait()
	}
	t.Cleanup(kill)
	for lines := bufio.NewScanner(out); !server.IsValid() && lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "at "); ok {
			server = netip.MustParseAddrPort(text)
		}
	}
	return server, kill
}

// TestServersKilled kills a server. Its players of both kinds are told within seconds.
func TestServersKilled(t *testing.T) {
	t.Parallel()
	server, kill := startServerProcess(t)
	at, log := startBefore(t, server)
	conn, _ := dialRakNet(t, at)
	echoRakNet(t, conn, 10)
	own := newKeys(t)
	own.server = nil
	p := join(t, own, at.String())
	p.echo(10)
	kill()
	began := time.Now()
	stop := make(chan struct{})
	defer close(stop)
	go func() { // players do not fall silent
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Millisecond):
				_, _ = conn.Write([]byte("\xfeanybody?"))
				send(t, p.reliable, []byte("anybody?"))
			}
		}
	}()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	for err := error(nil); err == nil; {
		_, err = conn.ReadPacket()
	}
	await.Until(t, "the session of pion has ended", func() bool {
		return strings.Count(log.String(), "session ended") == 2
	})
	t.Logf("both were told after %v", time.Since(began))
}

// TestServersHostile spoils the answers of servers. The players are refused, and the log says why.
func TestServersHostile(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	k.client = nil
	victim, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.9:0")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = victim.Close() })
	third := victim.LocalAddr().(*net.UDPAddr)
	status := func(code int) func(http.ResponseWriter, string) string {
		return func(w http.ResponseWriter, _ string) string {
			w.WriteHeader(code)
			return "go away"
		}
	}
	for name, row := range map[string]struct {
		spoils func(http.ResponseWriter, string) string
		logs   string
	}{
		"a third party": {func(_ http.ResponseWriter, answer string) string {
			before, _, _ := strings.Cut(answer, "a=candidate")
			return before + fmt.Sprintf("a=candidate:1 1 udp 9 %s %d typ host\r\n", third.IP, third.Port)
		}, "not the server's"},
		"another certificate": {func(_ http.ResponseWriter, answer string) string {
			at := strings.Index(answer, "a=fingerprint:sha-256 ") + len("a=fingerprint:sha-256 ")
			return answer[:at] + "00:00" + answer[at+len("00:00"):]
		}, "certificate"},
		"full":      {status(http.StatusServiceUnavailable), "503"},
		"wants TLS": {status(http.StatusUpgradeRequired), "426"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := startGame(t, k, false)
			g.spoils = row.spoils
			at, log := startBefore(t, g.http)
			if conn, err := raknet.DialTimeout(at.String(), 3*time.Second); err == nil {
				_ = conn.Close()
				t.Error("the player has joined")
			}
			await.Until(t, "the log says why", func() bool { return strings.Contains(log.String(), row.logs) })
		})
	}
	t.Cleanup(func() {
		_ = victim.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if n, err := victim.Read(make([]byte, 2000)); err == nil {
			t.Errorf("the third party got %d bytes", n)
		}
	})
}
