package examples

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/endpoint"
	"tidegate/internal/config"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
	"tidegate/internal/setup"
	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/freeport"
)

// stage is an example at work: Tidegate in a process of its own, a game server in place of each of its servers, and
// clients. The test's goroutine drives servers and clients in turns.
type stage struct {
	*endpoint.Endpoint[client]
	dir     string // has the configuration and the files that it names
	config  *config.Config
	file    string // the configuration
	servers map[string]*server
	ports   map[string]netip.AddrPort // of the listeners, by name
	log     <-chan logLine
}

// logLine is a line of Tidegate's log.
type logLine struct{ Message, Listener, Address, Reason, Error string }

// client is the state of a client's connection. Text is the last received message.
type client struct {
	spec             *codec.Spec
	connected, ended bool
	text             string
	id               uint16 // of that message
}

// perform starts an example with replacements for texts of its file, given as old and new in turn.
func perform(t *testing.T, name string, replaced ...string) *stage {
	t.Helper()
	return performAt(t, name, make(map[string]*server), replaced...)
}

// performAt is perform with servers that may run already. It starts the others and adds them.
func performAt(t *testing.T, name string, servers map[string]*server, replaced ...string) *stage {
	t.Helper()
	s := &stage{dir: copied(t), servers: servers, ports: make(map[string]netip.AddrPort)}
	var err error
	if s.Endpoint, err = endpoint.New(endpoint.Options[client]{Event: heard}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	s.file = filepath.Join(s.dir, "tidegate.toml") // which Tidegate finds by itself
	text := strings.NewReplacer(replaced...).Replace(read(t, filepath.Join(s.dir, name)))
	s.config = parse(t, name, text)
	for _, u := range s.config.Upstreams {
		for _, to := range u.Servers {
			address := to.Address.String()
			if s.servers[address] == nil {
				s.servers[address] = serve(t, u.Protocol, freeport.Loopback(t))
			}
			text = strings.ReplaceAll(text, `"`+address+`"`, `"`+s.servers[address].addr.String()+`"`)
		}
	}
	for _, l := range s.config.Listeners {
		free := `"127.0.0.1:0"`
		if l.Address.Addr().Is6() {
			free = `"[::1]:0"`
		}
		text = strings.ReplaceAll(text, `"`+l.Address.String()+`"`, free)
	}
	s.rewrite(t, text+"\n[admin]\nlisten = \"unix:"+socket(t)+"\"\n[loop]\ncount = 1\n")
	s.start(t)
	return s
}

// rewrite replaces the configuration.
func (s *stage) rewrite(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(s.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// start runs Tidegate until the test ends, and waits until it is ready.
func (s *stage) start(t *testing.T) {
	t.Helper()
	cmd := tidegate(s.dir, "run")
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	s.log = lines(out)
	for {
		line := s.await(t, "")
		switch line.Message {
		case "listening":
			s.ports[line.Listener] = netip.MustParseAddrPort(line.Address)
		case "tidegate is running":
			return
		}
	}
}

// lines reads a log in the background.
func lines(out io.Reader) <-chan logLine {
	log := make(chan logLine, 10000)
	go func() {
		defer close(log)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			line := logLine{Message: scan.Text()}
			_ = json.Unmarshal(scan.Bytes(), &line) // a fault of the start is plain text
			log <- line
		}
	}()
	return log
}

// await turns until the log has a line with a message, and returns it; "" is any.
func (s *stage) await(t *testing.T, message string) logLine {
	t.Helper()
	var found logLine
	s.until(t, "logged: "+message, func() bool {
		for {
			select {
			case line, ok := <-s.log:
				if !ok {
					t.Fatalf("the log ended before %q", message)
				}
				if message == "" || line.Message == message {
					found = line
					return true
				}
			default:
				return false
			}
		}
	})
	return found
}

// command runs a command of Tidegate on the stage's configuration and returns its output. Clients and servers go on
// meanwhile: on a busy machine a command takes seconds.
func (s *stage) command(t *testing.T, args ...string) string {
	t.Helper()
	var out []byte
	var err error
	s.meanwhile(t, strings.Join(args, " "), func() { out, err = tidegate(s.dir, args...).CombinedOutput() })
	if err != nil {
		t.Fatalf("tidegate %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// meanwhile turns until f, on another goroutine, has ended.
func (s *stage) meanwhile(t *testing.T, what string, f func()) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f()
	}()
	s.until(t, "ended: "+what, func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	})
}

// metric returns the value of a metric, with its labels as in the output; 0 if it is missing.
func (s *stage) metric(t *testing.T, name string) (value float64) {
	t.Helper()
	for line := range strings.Lines(s.command(t, "metrics")) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			if _, err := fmt.Sscan(rest, &value); err != nil {
				t.Fatal(err)
			}
		}
	}
	return value
}

// turn drives servers and clients once.
func (s *stage) turn(t *testing.T) {
	t.Helper()
	for _, server := range s.servers {
		server.turn(t)
	}
	if err := s.Turn(time.Now().Add(2 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
}

// until turns until a condition holds.
func (s *stage) until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(await.Patience); !done(); s.turn(t) {
		if time.Now().After(end) {
			t.Fatalf("after %v: not %s", await.Patience, what)
		}
	}
}

// dial begins the connection of a client.
func (s *stage) dial(t *testing.T, listener, protocol string) *endpoint.Conn[client] {
	t.Helper()
	p := protocols.Find(protocol).NewCalm(registry.Use{})
	c, err := s.Dial(p, s.ports[listener], codec.Hello{Identity: uint64(time.Now().UnixNano())}, endpoint.SocketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Value.spec = p.Spec()
	return c
}

// join connects a client, which then exchanges a message with its server.
func (s *stage) join(t *testing.T, listener, protocol string) *endpoint.Conn[client] {
	t.Helper()
	c := s.dial(t, listener, protocol)
	s.until(t, "connected to "+listener, func() bool { return c.Value.connected })
	s.talk(t, c, "hello")
	return c
}

// talk sends a reliable message and waits for its echo.
func (s *stage) talk(t *testing.T, c *endpoint.Conn[client], text string) {
	t.Helper()
	mode := codec.ReliableOrdered
	if !c.Value.spec.Modes.Has(mode) {
		mode = codec.Reliable
	}
	s.send(t, c, codec.Message{Payload: append([]byte{0x86}, text...), Mode: mode, ID: 1})
	s.until(t, "answered: "+text, func() bool { return strings.HasSuffix(c.Value.text, text) })
}

// send sends a message. Only protocols with message IDs carry the ID.
func (s *stage) send(t *testing.T, c *endpoint.Conn[client], m codec.Message) {
	t.Helper()
	m.HasID = c.Value.spec.IDs == codec.IDBeside
	if err := c.Send(s.Now(), m); err != nil {
		t.Fatal(err)
	}
	s.Touch(c)
}

// heard takes an event of a client.
func heard(c *endpoint.Conn[client], e *codec.Event) {
	switch e.Kind {
	case codec.Connected:
		c.Value.connected = true
	case codec.Received:
		c.Value.text, c.Value.id = string(e.Payload), e.ID
	case codec.Disconnected:
		c.Value.ended = true
	}
}

// server is a game server that returns every message. It is one of our codecs, or a plain socket for protocol "any".
type server struct {
	*endpoint.Endpoint[struct{}]
	protocol string
	addr     netip.AddrPort
	peers    []netip.AddrPort // source of each connection
	plain    *plain
	answer   func(payload []byte) []byte // nil: the same bytes
}

// serve starts a game server at an address.
func serve(t *testing.T, protocol string, at netip.AddrPort) *server {
	t.Helper()
	s := &server{protocol: protocol}
	if protocol == "any" {
		s.plain = servePlain(t, at)
		s.addr = s.plain.addr
		return s
	}
	var err error
	if s.Endpoint, err = endpoint.New(endpoint.Options[struct{}]{Event: s.event}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	listener, err := s.Listen(protocols.Find(protocol).NewCalm(registry.Use{}), at, endpoint.SocketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.addr = listener.Addr()
	return s
}

func (s *server) event(c *endpoint.Conn[struct{}], e *codec.Event) {
	switch e.Kind {
	case codec.Connected:
		s.peers = append(s.peers, c.Peer())
	case codec.Received:
		if s.answer != nil {
			e.Payload, e.Pad = s.answer(e.Payload), 0
		}
		_ = c.Send(s.Now(), e.Message) // without room the client misses it, and the test fails
	}
}

func (s *server) turn(t *testing.T) {
	t.Helper()
	if s.Endpoint == nil {
		return
	}
	if err := s.Turn(time.Now()); err != nil {
		t.Fatal(err)
	}
}

// loopback is any free port of this machine.
var loopback = netip.MustParseAddrPort("127.0.0.1:0")

// secretFile is the folder of the system's configuration, which examples may name.
var secretFile = regexp.MustCompile(`file:/etc/tidegate/`)

// copied copies the examples and the files that they name into a new folder. Names in /etc/tidegate become names in
// that folder.
func copied(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range all(t) {
		text := secretFile.ReplaceAllString(read(t, name), "file:"+filepath.ToSlash(dir)+"/")
		put(t, dir, name, text)
	}
	companions(t, dir)
	return dir
}

// companions writes the files that examples name.
func companions(t *testing.T, dir string) {
	t.Helper()
	put(t, dir, "friends.txt", read(t, "friends.txt"))
	if err := os.CopyFS(filepath.Join(dir, "modules"), os.DirFS("modules")); err != nil {
		t.Fatal(err)
	}
	put(t, dir, "cookie.secret", strings.Repeat("5a", 32)+"\n")
}

// all returns the names of the examples.
func all(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob("*.toml")
	if err != nil || len(names) < 10 {
		t.Fatalf("%d examples, %v", len(names), err)
	}
	slices.Sort(names)
	return names
}

func parse(t *testing.T, name, text string) *config.Config {
	t.Helper()
	c, _, err := config.Parse(name, []byte(text), setup.Traits())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// socket returns a path for a Unix socket, which must be short.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.ToSlash(filepath.Join(dir, "admin"))
}

// tidegate returns a command line of this test's program, which takes the place of tidegate.
func tidegate(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TIDEGATE_MAIN=1")
	return cmd
}
