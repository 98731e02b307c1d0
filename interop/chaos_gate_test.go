//go:build interop && chaos

package interop_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandertv/go-raknet"

	"tidegate/internal/testkit/await"
)

// plan is a configuration of one listener and one upstream.
type plan struct {
	players, server     string   // protocols
	playersBy, serverBy string   // transports; empty: udp
	port                string   // where players connect: a port of 127.0.0.1, or an address
	servers             []string // the same
	route, upstream     string   // more keys
	more                string   // more tables
}

// text returns the configuration. The admin socket is beside the file.
func (p *plan) text(dir string) string {
	var servers []string
	for _, port := range p.servers {
		servers = append(servers, fmt.Sprintf("%q", at(port)))
	}
	return fmt.Sprintf(`
[[listener]]
name = "public"
address = %q
transport = %q
protocols = [%q]
route = "arena"
[[route]]
name = "arena"
upstream = "arena"
%s
[[upstream]]
name = "arena"
protocol = %q
transport = %q
servers = [%s]
%s
%s
[log]
format = "json"
[admin]
listen = "unix:%s"
`, at(p.port), cmp.Or(p.playersBy, udp), p.players, p.route, p.server, cmp.Or(p.serverBy, udp),
		strings.Join(servers, ", "), p.upstream, p.more, filepath.Join(dir, "admin.sock"))
}

// bedrock is the plan for go-raknet's players and server.
func bedrock(t *testing.T, server *peer) plan {
	return plan{players: "bedrock", server: "bedrock", port: freePort(t), servers: []string{server.port},
		route: fmt.Sprintf("packet_id = %d", packetByte)}
}

// gate is a running Tidegate with a configuration that may change.
type gate struct {
	*proxy
	plan plan
	file string
}

// open runs the binary by a plan, and waits until it is ready.
func (p plan) open(t *testing.T) *gate { return p.openBy(t, tidegate) }

// openBy is open by a command.
func (p plan) openBy(t *testing.T, command ...string) *gate {
	t.Helper()
	g := newGate(t, p)
	g.start(t, command...)
	return g
}

// newGate writes a plan's configuration.
func newGate(t *testing.T, p plan) *gate {
	t.Helper()
	if p.port == "" {
		p.port = freePort(t)
	}
	g := &gate{plan: p, file: filepath.Join(t.TempDir(), "tidegate.toml")}
	g.write(t)
	return g
}

func (g *gate) start(t *testing.T, command ...string) {
	t.Helper()
	g.proxy = &proxy{journal: make(chan journalEntry, 100000)}
	heard := func(line []byte) {
		var entry journalEntry
		if json.Unmarshal(line, &entry) == nil {
			select {
			case g.journal <- entry:
			default:
			}
		}
	}
	g.process = start(t, nil, heard, append(command, "run", "-c", g.file)...)
	g.ready(t)
}

func (g *gate) write(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(g.file, []byte(g.plan.text(filepath.Dir(g.file))), 0o600); err != nil {
		t.Fatal(err)
	}
}

// ready waits until the proxy is ready.
func (g *gate) ready(t *testing.T) {
	t.Helper()
	await.Until(t, "ready", func() bool { return exec.Command(tidegate, "health", "--ready", "-c", g.file).Run() == nil })
}

// command runs a command for operators. It returns its output and its exit code.
func (g *gate) command(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	b, err := exec.Command(tidegate, args...).CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	if failed != nil {
		code = failed.ExitCode()
	}
	return string(b), code
}

// reload reloads a changed plan.
func (g *gate) reload(t *testing.T, change func(p *plan)) {
	t.Helper()
	change(&g.plan)
	g.write(t)
	if out, code := g.command(t, "reload", "-c", g.file); code != 0 {
		t.Errorf("reload: %s", out)
	}
}

func (g *gate) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := g.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// ends asks for a graceful end, checks the exit code, and returns how long it took.
func (g *gate) ends(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	g.signal(t, syscall.SIGTERM)
	if err := g.waitWithin(patience); err != nil {
		t.Errorf("SIGTERM: %v, want exit code 0", err)
	}
	return time.Since(began)
}

func (g *gate) waitWithin(limit time.Duration) error {
	ended := make(chan error, 1)
	go func() { ended <- g.wait() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(limit):
		return errors.New("it does not end")
	}
}

// exitCode waits for the end of the process.
func (g *gate) exitCode(t *testing.T) int {
	t.Helper()
	err := g.waitWithin(patience)
	var failed *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &failed):
		t.Fatal(err)
	}
	return failed.ExitCode()
}

// goPlayer is a go-raknet client.
type goPlayer struct {
	*raknet.Conn
	took time.Duration // of the join
}

// joins connects a go-raknet client to a port.
func joins(t *testing.T, port string) goPlayer {
	t.Helper()
	began := time.Now()
	conn, err := raknet.DialTimeout(net.JoinHostPort("127.0.0.1", port), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return goPlayer{conn, time.Since(began)}
}

// plays sends a message and waits for its echo.
func (p goPlayer) plays(t *testing.T) {
	t.Helper()
	if _, err := p.Write([]byte{packetByte, 1}); err != nil {
		t.Error(err)
		return
	}
	_ = p.SetReadDeadline(time.Now().Add(patience))
	if _, err := p.ReadPacket(); err != nil {
		t.Error(err)
	}
}

// isTold waits for the goodbye.
func (p goPlayer) isTold(t *testing.T) {
	t.Helper()
	select {
	case <-p.Context().Done():
	case <-time.After(5 * time.Second): // before its own time-out
		t.Error("a player was not told goodbye")
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
