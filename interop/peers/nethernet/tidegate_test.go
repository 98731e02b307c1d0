package nethernet

import (
	"bytes"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/pion/webrtc/v4"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/freeport"
	"tidegate/internal/testkit/rakserver"
)

// folder has the program, for as long as the tests run.
var folder string

func TestMain(m *testing.M) {
	code := m.Run()
	if folder != "" {
		_ = os.RemoveAll(folder)
	}
	os.Exit(code)
}

var buildTidegate = sync.OnceValues(func() (_ string, err error) {
	if folder, err = os.MkdirTemp("", "tidegate"); err != nil {
		return "", err
	}
	program := filepath.Join(folder, "tidegate")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = "../../.."
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return program, nil
})

// output is the log of a process.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// startTidegate runs Tidegate as an edge before a server, with two loops. Its clients are told the public address. It
// returns its port and its log.
func startTidegate(t *testing.T, server netip.AddrPort, public string, keys ...string) (
	netip.AddrPort, *output, *exec.Cmd,
) {
	t.Helper()
	return runTidegate(t, fmt.Sprintf(`
[loop]
count = 2
[admin]
listen = "off"
[[listener]]
name = "bedrock"
address = "%%s"
protocols = ["bedrock", "nethernet"]
route = "bedrock"
public_addresses = ["%s"]
[[route]]
name = "bedrock"
upstream = "bedrock"
mode = "relay"
[[upstream]]
name = "bedrock"
protocol = "bedrock"
servers = ["%s"]
%s
`, public, server, strings.Join(keys, "\n")))
}

// runTidegate runs Tidegate with a configuration, in which a free address takes the place of %s.
func runTidegate(t *testing.T, text string) (netip.AddrPort, *output, *exec.Cmd) {
	t.Helper()
	at := free(t)
	log, command := runTidegateAt(t, at, text)
	return at, log, command
}

func free(t *testing.T) netip.AddrPort {
	t.Helper()
	at, err := freeport.Find(loopback.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// runTidegateAt is runTidegate for a known address.
func runTidegateAt(t *testing.T, at netip.AddrPort, text string) (*output, *exec.Cmd) {
	t.Helper()
	program, err := buildTidegate()
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "tidegate.toml")
	if err := os.WriteFile(config, fmt.Appendf(nil, text, at), 0o600); err != nil {
		t.Fatal(err)
	}
	log := new(output)
	command := exec.Command(program, "run", "--config", config)
	command.Stderr, command.Stdout = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // with its successor
		_ = command.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	await.Until(t, "Tidegate runs", func() bool { return strings.Contains(log.String(), "tidegate is running") })
	return log, command
}

// TestTidegate plays with pion through the real program, at a full and at an ICE-lite server. In mid-game a NAT gives
// the client another port, which the kernel may give to Tidegate's other loop.
func TestTidegate(t *testing.T) {
	for name, lite := range map[string]bool{"full": false, "lite": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKeys(t)
			g := startGame(t, k, lite)
			const public = "127.0.0.2"
			at, log, _ := startTidegate(t, g.http, public)
			n := startNATAt(t, at, netip.AddrPortFrom(netip.MustParseAddr(public), at.Port()))
			p := join(t, k, at.String())
			p.echo(1000)
			for _, size := range []int{10_000, 300_000, 2_000_000} {
				large := bytes.Repeat([]byte("tide"), size/4+1)[:size]
				send(t, p.reliable, large)
				if got := p.receive(p.got); !bytes.Equal(got, large) {
					t.Fatalf("%d bytes became %d", size, len(got))
				}
			}
			for range 3 {
				n.rebind(t)
				p.echo(100)
			}
			g.mu.Lock()
			if last := g.states[len(g.states)-1]; last != webrtc.PeerConnectionStateConnected {
				t.Errorf("the server's states: %v", g.states)
			}
			g.mu.Unlock()
			if n := strings.Count(log.String(), "session established"); n != 1 {
				t.Errorf("%d sessions", n)
			}
		})
	}
}

// TestJoinsDuringUpgrade joins again and again while the program is replaced, over a new TCP connection each time: at
// an edge, and at a bridge. Every player gets in.
func TestJoinsDuringUpgrade(t *testing.T) {
	for _, mode := range []string{"edge", "bridge"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			k := newKeys(t)
			var at netip.AddrPort
			var log *output
			var command *exec.Cmd
			if mode == "edge" {
				at, log, command = startTidegate(t, startGame(t, k, true).http, loopback.Addr().String())
			} else {
				k.server = nil // Tidegate makes its own
				at, log, command = startBridge(t, rakserver.Start(t, rakserver.Echo), `identity = "none"`)
			}
			join(t, k, at.String()).echo(10)
			if err := command.Process.Signal(syscall.SIGUSR2); err != nil {
				t.Fatal(err)
			}
			joins := 0
			for after := 0; after < 5; joins++ {
				http.DefaultClient.CloseIdleConnections()
				p := join(t, k, at.String())
				if mode == "edge" {
					p.echo(10)
				}
				if strings.Contains(log.String(), "tidegate stopped") { // the predecessor
					after++
				}
			}
			join(t, k, at.String()).echo(10)
			t.Logf("%d joins", joins)
		})
	}
}

// TestTidegateUpgrade replaces the program while two clients play and a third has joined over HTTP.
func TestTidegateUpgrade(t *testing.T) {
	k := newKeys(t)
	g := startGame(t, k, true)
	at, log, command := startTidegate(t, g.http, loopback.Addr().String())
	first, second := join(t, k, at.String()), join(t, k, at.String())
	first.echo(100)
	second.echo(100)
	if err := command.Process.Signal(syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the successor has taken over", func() bool { return strings.Contains(log.String(), "took over") })
	first.echo(1000)
	second.echo(1000)
}
