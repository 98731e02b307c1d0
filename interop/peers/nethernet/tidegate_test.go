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
func startTidegate(t *testing.T, server netip.AddrPort, public string) (netip.AddrPort, *output, *exec.Cmd) {
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
`, public, server))
}

// runTidegate runs Tidegate with a configuration, in which a free address takes the place of %s.
func runTidegate(t *testing.T, text string) (netip.AddrPort, *output, *exec.Cmd) {
	t.Helper()
	program, err := buildTidegate()
	if err != nil {
		t.Fatal(err)
	}
	at, err := freeport.Find(loopback.Addr())
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
	return at, log, command
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
	http.DefaultClient.CloseIdleConnections()
	await.Until(t, "the successor serves joins", func() bool {
		in, err := http.Get("http://" + at.String() + "/v1/join")
		if err != nil {
			return false
		}
		_ = in.Body.Close()
		return in.StatusCode == http.StatusOK
	})
	join(t, k, at.String()).echo(100)
}
