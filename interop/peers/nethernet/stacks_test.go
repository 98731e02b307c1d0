//go:build interop

package nethernet

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pion/webrtc/v4"

	"tidegate/internal/joining"
	"tidegate/internal/testkit/await"
)

// stack is a client that is not pion's.
type stack struct {
	name     string
	messages int
	pins     []string // files that name its packages
	install  func(dir string) [][]string
	line     func(dir string) (env string, line []string)
}

var (
	nodePins   = []string{"package.json", "package-lock.json"}
	pythonPins = []string{"requirements.txt"}
)

var otherStacks = []stack{
	{"libwebrtc", 1000, nodePins, npm, node("libwebrtc")},
	{"libdatachannel", 1000, nodePins, npm, node("libdatachannel")},
	{"werift", 200, nodePins, npm, node("werift")}, // more take it minutes
	{"aiortc", 1000, pythonPins, pip, python("aiortc")},
	{"libwebrtc M152", 1000, pythonPins, pip, python("webrtc.aiortc")},
}

func npm(string) [][]string {
	return [][]string{{"npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"}}
}

func pip(dir string) [][]string {
	return [][]string{
		{"python3", "-m", "venv", "v"},
		{filepath.Join(dir, "v/bin/pip"), "install", "-q", "--only-binary", ":all:", "-r", "requirements.txt"},
	}
}

func node(name string) func(string) (string, []string) {
	return func(dir string) (string, []string) {
		return "NODE_PATH=" + filepath.Join(dir, "node_modules"), []string{"node", "client.js", name}
	}
}

func python(module string) func(string) (string, []string) {
	return func(dir string) (string, []string) {
		return "", []string{filepath.Join(dir, "v/bin/python"), "-B", "client.py", module}
	}
}

// installing is held by the one test that installs packages.
var installing sync.Mutex

// prepare installs the packages of a stack into the user's cache, unless an earlier run did.
func (s *stack) prepare(t *testing.T) string {
	t.Helper()
	installing.Lock()
	defer installing.Unlock()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, name := range s.pins {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	sum := sha256.Sum256(all)
	dir := filepath.Join(cache, "tidegate-interop", fmt.Sprintf("nethernet-%x", sum[:6]))
	complete := filepath.Join(dir, "complete")
	if _, err := os.Stat(complete); err == nil {
		return dir
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range s.pins {
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(name)), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range s.install(dir) {
		command := exec.Command(line[0], line[1:]...)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", line, err, out)
		}
	}
	if err := os.WriteFile(complete, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// process is a running client.
type process struct {
	t     *testing.T
	in    io.Writer
	lines chan string // closed at the end
	kill  func() error
}

func (s *stack) start(t *testing.T, arguments ...string) *process {
	t.Helper()
	env, line := s.line(s.prepare(t))
	command := exec.CommandContext(t.Context(), line[0], append(line[1:], arguments...)...)
	command.Env = append(os.Environ(), env)
	var faults strings.Builder
	command.Stderr = &faults
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, in: in, lines: make(chan string, 100), kill: command.Process.Kill}
	go func() {
		defer close(p.lines)
		all := bufio.NewScanner(out)
		for all.Buffer(nil, 4<<20); all.Scan(); {
			p.lines <- all.Text()
		}
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		for range p.lines {
		}
		if _ = command.Wait(); t.Failed() {
			t.Logf("%s: %s", s.name, faults.String())
		}
	})
	return p
}

func (p *process) order(line, want string) {
	p.t.Helper()
	if line != "" {
		if _, err := fmt.Fprintln(p.in, line); err != nil {
			p.t.Fatal(err)
		}
	}
	select {
	case got, ok := <-p.lines:
		if got != want {
			p.t.Fatalf("after %q: %q, %v, want %q", line, got, ok, want)
		}
	case <-time.After(2 * patience):
		p.t.Fatalf("after %q: nothing", line)
	}
}

// TestOtherStacks joins with clients of other authors, at a full and at an ICE-lite server. Each verifies the server's
// identity by its own means. The server verifies the client's. In mid-game a NAT gives the client another port.
func TestOtherStacks(t *testing.T) {
	for _, s := range otherStacks {
		for _, lite := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, lite %v", s.name, lite), func(t *testing.T) {
				t.Parallel()
				playOther(t, s, lite)
			})
		}
	}
}

func playOther(t *testing.T, s stack, lite bool) {
	k := newKeys(t)
	k.client = nil // the client makes its own
	g := startGame(t, k, lite)
	var n *nat
	e := startEdge(t, g.http, func(edge netip.AddrPort) netip.AddrPort {
		n = startNAT(t, edge)
		return n.addr()
	})
	p := s.start(t, "http://"+e.http)
	p.order("", "open")
	p.order(fmt.Sprintf("echo %d", s.messages), "echoed")
	p.order("perhaps", "echoed")
	n.rebind(t)
	p.order("echo 100", "echoed")
	e.look(func(session *session) {
		if session.moves == 0 {
			t.Error("the session has not moved")
		}
	})
	g.mu.Lock()
	if slices.Contains(g.states, webrtc.PeerConnectionStateFailed) {
		t.Errorf("the server's states: %v", g.states)
	}
	g.mu.Unlock()
	joins := e.tickets.Joins(loopback.Addr())
	if len(joins) != 1 || joins[0].Stage != joining.Admitted {
		t.Errorf("%+v", joins)
	}
	if _, err := fmt.Fprintln(p.in, "close"); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the client has ended", func() bool {
		select {
		case _, ok := <-p.lines:
			return !ok
		default:
			return false
		}
	})
}

// otherServers are servers of other authors. The first one has the library of Minecraft's own.
var otherServers = []string{"libwebrtc", "libdatachannel"}

// TestOtherServers joins servers that are not pion's, whose answers name the addresses of a machine. They get an offer
// without any candidate, as behind every edge. pion and libwebrtc are the clients, and a NAT gives them another port.
func TestOtherServers(t *testing.T) {
	for _, name := range otherServers {
		server := otherServer(name)
		for _, client := range []string{"pion", "libwebrtc"} {
			t.Run(name+" for "+client, func(t *testing.T) {
				t.Parallel()
				playAt(t, &server, client)
			})
		}
	}
}

func otherServer(name string) stack {
	return stack{name, 0, nodePins, npm, func(dir string) (string, []string) {
		return "NODE_PATH=" + filepath.Join(dir, "node_modules"), []string{"node", "server.js", name}
	}}
}

func playAt(t *testing.T, server *stack, client string) {
	process := server.start(t)
	var port string
	select {
	case port = <-process.lines:
	case <-time.After(patience):
	}
	at, err := netip.ParseAddrPort("127.0.0.1:" + port)
	if err != nil {
		t.Fatal(err)
	}
	var n *nat
	e := startEdge(t, at, func(edge netip.AddrPort) netip.AddrPort {
		n = startNAT(t, edge)
		return n.addr()
	})
	switch client {
	case "pion":
		k := newKeys(t)
		k.server = nil // the server makes its own
		p := join(t, k, e.http)
		p.echo(1000)
		n.rebind(t)
		p.echo(100)
	default:
		p := otherStacks[0].start(t, "http://"+e.http)
		p.order("", "open")
		p.order("echo 1000", "echoed")
		n.rebind(t)
		p.order("echo 100", "echoed")
	}
	e.look(func(session *session) {
		if session.moves == 0 {
			t.Error("the session has not moved")
		}
	})
}
