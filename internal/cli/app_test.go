package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/internal/daemon"
	"tidegate/internal/protocols"
	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/rakserver"
)

// exampleConfig is config.example.toml, which main embeds.
var exampleConfig []byte

// atStep is called before each step of an upgrade of this test's program. Tests replace it there.
var atStep = func(string) {}

// TestMain lets the test binary take the place of tidegate itself: signals and exit codes need a process. Tests run in
// the root of the repository, so that paths in them look as users write them.
func TestMain(m *testing.M) {
	root := os.Getenv("TIDEGATE_ROOT")
	if root == "" {
		root, _ = filepath.Abs("../..")
		_ = os.Setenv("TIDEGATE_ROOT", root)
		_ = os.Chdir(root)
	}
	var err error
	if exampleConfig, err = os.ReadFile(filepath.Join(root, "config.example.toml")); err != nil {
		panic(err)
	}
	if os.Getenv("TIDEGATE_MAIN") != "" {
		_ = os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
		os.Exit(mainWith(daemon.TraceUpgrades(context.Background(), atStep), exampleConfig))
	}
	_ = os.Setenv("TIDEGATE_MAIN", "1") // for processes that this binary starts from itself
	os.Exit(m.Run())
}

// tidegate runs a command line in this process.
func tidegate(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*await.Patience)
	defer cancel()
	var out, errs bytes.Buffer
	code = run(ctx, exampleConfig, append([]string{"tidegate"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

// separately is tidegate in a process of its own, for tests beside others: commands share their flags.
func separately(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	command := exec.Command(os.Args[0], args...)
	command.Env = append(os.Environ(), "TIDEGATE_MAIN=1")
	command.Stdout, command.Stderr = &out, &errs
	var ended *exec.ExitError
	if err := command.Run(); err != nil && !errors.As(err, &ended) {
		t.Error(err)
	}
	return command.ProcessState.ExitCode(), out.String(), errs.String()
}

// write writes a configuration file and returns its path.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tidegate.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMisuseEndsWithTwo(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "tidegate: want one of its commands"},
		{[]string{"ban"}, "tidegate ban: want one of its commands: add, del, list, import"},
		{[]string{"sessions"}, "list sessions, oldest first"},
		{[]string{"fly"}, `unknown command "fly"`},
		{[]string{"--fast"}, `unknown flag "--fast"`},
		{[]string{"run", "--fast"}, `unknown flag "--fast"`},
		{[]string{"run", "file"}, `unexpected argument "file"`},
		{[]string{"check", "-c", "/nonexistent/tidegate.toml"}, "no such file"},
		{[]string{"ping"}, "ping: want one HOST:PORT"},
		{[]string{"ping", "-p", "smtp", "127.0.0.1:1"}, `--protocol "smtp": want one of all, any, bedrock, `},
		{[]string{"ping", "localhost"}, `"localhost": want HOST:PORT, for example "127.0.0.1:7777"`},
		{[]string{"version", "1"}, `unexpected argument "1"`},
		{[]string{"completion", "cmd"}, "want one of bash, zsh or fish"},
		{[]string{"sessions", "backward"}, `unknown command "sessions backward"`},
		{[]string{"upstreams", "drain"}, "upstreams drain: want UPSTREAM and SERVER"},
		{[]string{"demo", "--loss", "80%"}, `--loss 80%: want a share up to a half, for example "5%"`},
		{[]string{"demo", "--loss", "much"}, "--loss much: want a share"},
		{[]string{"demo", "--clients", "0"}, "--clients 0: want 1 to 500"},
		{[]string{"demo", "--for", "1ms"}, "--for 1ms: want at least 1s"},
		{[]string{"demo", "--from", "smtp"}, `--from "smtp": want one of raknet, bedrock, riptide-2.2, `},
		{[]string{"demo", "--from", "rtype-0.0.1"}, "want another protocol for the demo: its clients only press keys"},
		{[]string{"demo", "--from", "riptide-2.2+tcp", "--loss", "5%"}, "--loss 5%: want 0, since TCP loses nothing"},
		{[]string{"demo", "--to", "smtp"}, `--to "smtp": want one of raknet, `},
	} {
		code, stdout, stderr := tidegate(t, c.args...)
		if code != 2 || stdout != "" || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: code %d, says %q and %q; want 2 and %q", c.args, code, stdout, stderr, c.says)
		}
	}
}

// TestRunWithFaultsEndsWith78 ends with the code after which a service manager does not restart the process.
func TestRunWithFaultsEndsWith78(t *testing.T) {
	for _, path := range []string{"/nonexistent/tidegate.toml", write(t, "[[listener]]\n"), write(t, "=")} {
		if code, _, stderr := tidegate(t, "run", "-c", path); code != exitConfig || stderr == "" {
			t.Errorf("%s: code %d, says %q", path, code, stderr)
		}
	}
	if code, _, _ := tidegate(t, "run", "--fast"); code != 2 {
		t.Errorf("wrong usage: code %d", code)
	}
}

// TestFailedStartIsLogged starts at a port that another program has. Each line of the log is JSON, also the last one.
func TestFailedStartIsLogged(t *testing.T) {
	taken, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	text := strings.Replace(bridgeConfig("127.0.0.1:1"), "127.0.0.1:0", taken.LocalAddr().String(), 1)
	code, _, stderr := tidegate(t, "run", "-c", write(t, text))
	var last struct{ Level, Message, Error string }
	for line := range strings.Lines(stderr) {
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Errorf("%v: %s", err, line)
		}
	}
	if code != 1 || last.Level != "error" || last.Message != "tidegate failed" || !strings.Contains(last.Error, "bind") {
		t.Errorf("code %d, last %+v of\n%s", code, last, stderr)
	}
}

// TestUnitFollowsExitCodes checks that the systemd unit restarts the process after every end but exitConfig. A command
// before the start would fail with another code. Then the unit would restart forever with a faulty configuration.
func TestUnitFollowsExitCodes(t *testing.T) {
	unit, err := os.ReadFile("packaging/systemd/tidegate.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\nRestart=always\n", fmt.Sprintf("\nRestartPreventExitStatus=%d\n", exitConfig), "\nStartLimitIntervalSec=0\n",
		"\nType=notify\n", "\nWatchdogSec=",
	} {
		if !strings.Contains(string(unit), want) {
			t.Errorf("the unit lacks %q", want)
		}
	}
	if strings.Contains(string(unit), "ExecStartPre=") {
		t.Error("the unit has a command before the start")
	}
}

func TestVersion(t *testing.T) {
	code, stdout, _ := tidegate(t, "version")
	if code != 0 || !strings.HasPrefix(stdout, "tidegate "+daemon.Release) {
		t.Errorf("code %d, says %q", code, stdout)
	}
}

// TestCheckReportsAllFaults compares the report of a bad file to the letter.
func TestCheckReportsAllFaults(t *testing.T) {
	path := write(t, `[[listener]]
name = "one"
address = "7777"
protocols = ["riptide-2.2"]
route = "arena"

[[listener]]
name = "two"
address = "0.0.0.0:7000"
protocols = ["riptide-2.2"]
route = "nowhere"

[[listener]]
name = "three"
address = "127.0.0.1:7000"
protocols = ["riptide-2.2"]
route = "arena"

[[route]]
name = "arena"
upstream = "arena"
colour = "red"

[[route]]
name = "empty"
upstream = "void"

[[upstream]]
name = "arena"
protocol = "raknet"
servers = ["127.0.0.1:19132"]

[limits]
sessions = "many"
`)
	code, stdout, stderr := tidegate(t, "check", "-c", path)
	if code != 2 || stdout != "" {
		t.Errorf("code %d, stdout %q; want 2 and nothing", code, stdout)
	}
	want, err := os.ReadFile("internal/cli/testdata/faults.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.ReplaceAll(stderr, path, "tidegate.toml"); got != string(want) {
		t.Errorf("says:\n%s\nwant:\n%s", got, want)
	}
}

func TestCheckExplainsTheExample(t *testing.T) {
	code, stdout, stderr := tidegate(t, "check", "-c", "config.example.toml")
	want, err := os.ReadFile("internal/cli/testdata/explained.txt")
	if err != nil {
		t.Fatal(err)
	}
	if code != 0 || stderr != "" || stdout != string(want) {
		t.Errorf("code %d, stderr %q, says:\n%s\nwant:\n%s", code, stderr, stdout, want)
	}
}

func TestCheckExplainsDialects(t *testing.T) {
	code, stdout, stderr := tidegate(t, "check", "-c", "internal/setup/testdata/dialects.toml")
	const want = `old (127.0.0.1:7700) riptide-2.0 -> arena (riptide-2.2)
  client to upstream: messages of 1 declared ID translated, all others dropped
    unreliable           as unreliable
    reliable             as reliable
  upstream to client: messages of 1 declared ID translated, all others dropped
    unreliable           as unreliable
    reliable             as reliable
    notify               as unreliable: a stale one may arrive late
arena: servers are not checked: only players find a dead one; health = "connect" joins the game to check it
configuration is valid
`
	if code != 0 || stderr != "" || stdout != want {
		t.Errorf("code %d, stderr %q, says:\n%s\nwant:\n%s", code, stderr, stdout, want)
	}
}

// TestCheckExplainsNetherNetServers says how Bedrock's messages cross, and whether the servers are checked.
func TestCheckExplainsNetherNetServers(t *testing.T) {
	for health, want := range map[string]string{
		"auto": "as reliable-ordered\nconfiguration is valid\n",
		"off":  "only players find a dead one\nconfiguration is valid\n",
	} {
		path := write(t, `
[[listener]]
name = "old"
address = "127.0.0.1:19131"
protocols = ["bedrock"]
route = "new"
[[route]]
name = "new"
upstream = "new"
[[upstream]]
name = "new"
protocol = "nethernet"
servers = ["192.0.2.5:19132"]
health = "`+health+`"
`)
		code, stdout, stderr := tidegate(t, "check", "-c", path)
		if code != 0 || stderr != "" || !strings.HasPrefix(stdout, "old (127.0.0.1:19131) bedrock -> new (nethernet)\n") ||
			!strings.HasSuffix(stdout, want) {
			t.Errorf("%s: code %d, stderr %q, says:\n%s", health, code, stderr, stdout)
		}
	}
}

// TestCheckNamesFaultyTypes reports each faulty type with its place and the types that the dialects know.
func TestCheckNamesFaultyTypes(t *testing.T) {
	path := write(t, strings.Replace(fixture(t, "dialects.toml"), `"bool", "ushort"`, `"flot", "int[0]", "varlong"`, 1))
	code, _, stderr := tidegate(t, "check", "-c", path)
	const want = `t.toml:14:10: route[0].message[0].types[0] = "flot": want byte, sbyte, bool, short, ushort, int, ` +
		`uint, long, ` +
		`ulong, float, double, string, vector2, vector3, quaternion, varulong, varlong or bits:N, and [] or [N] behind it ` +
		"for an array\n" +
		`t.toml:14:18: route[0].message[0].types[1] = "int[0]": want [] or a number of elements from 1 to 32767, ` +
		"for example [3]\n" +
		`t.toml:14:28: route[0].message[0].types[2] = "varlong": want a type that riptide-2.0 has`
	if got := strings.ReplaceAll(stderr, path, "t.toml"); code != 2 || !strings.Contains(got, want) {
		t.Errorf("code %d, says:\n%s\nwant:\n%s", code, got, want)
	}
}

// fixture returns a configuration that setup's tests use too.
func fixture(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("internal", "setup", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// bridgeConfig returns a configuration with a Riptide and RakNet listener in front of a RakNet server.
func bridgeConfig(server string) string {
	return `
[[listener]]
name = "public"
address = "127.0.0.1:0"
protocols = ["bedrock", "riptide-2.2"]
route = "arena"
[[route]]
name = "arena"
upstream = "arena"
ordered = "fast"
[[upstream]]
name = "arena"
protocol = "bedrock"
servers = ["` + server + `"]
[raknet]
pong = "MCPE;A test;"
`
}

// gameServer starts a server that accepts every client, and returns its address.
func gameServer(t *testing.T) string {
	t.Helper()
	return rakserver.Start(t, func(*gork.Conn) {}).String()
}

// echoServer starts a server that returns every message, and returns its address.
func echoServer(t *testing.T) string {
	t.Helper()
	return rakserver.Start(t, rakserver.Echo).String()
}

// process is tidegate in its own process.
type process struct {
	cmd    *exec.Cmd
	log    *bufio.Scanner
	stderr *os.File // the reading end of log
	addr   string   // of the listener
	file   string   // the configuration
	admin  string   // socket of the admin server
}

func startProcess(t *testing.T, configuration string, flags ...string) *process {
	t.Helper()
	return startProcessWith(t, configuration, nil, flags...)
}

// startProcessWith is startProcess with a socket from the service manager, as systemd gives it; nil for none.
func startProcessWith(t *testing.T, configuration string, socket *os.File, flags ...string) *process {
	t.Helper()
	return startProgram(t, os.Args[0], configuration, socket, flags...)
}

// startProgram is startProcessWith for another file with this test's program.
func startProgram(t *testing.T, program, configuration string, socket *os.File, flags ...string) *process {
	t.Helper()
	p := newProcess(t, program, write(t, ""), flags...)
	p.rewrite(t, configuration)
	if socket != nil {
		p.cmd.ExtraFiles = []*os.File{socket}
		p.cmd.Env = append(p.cmd.Env, "LISTEN_FDS=1") // and LISTEN_PID, which only the process itself knows: see TestMain
	}
	p.start(t)
	p.addr = p.await(t, "listening")["address"].(string)
	p.await(t, "tidegate is running")
	return p
}

// newProcess returns a process that will run with a configuration file.
func newProcess(t *testing.T, program, file string, flags ...string) *process {
	t.Helper()
	p := &process{admin: socketPath(t), file: file}
	p.cmd = exec.Command(program, append([]string{"run", "-c", file}, flags...)...)
	p.cmd.Env = append(os.Environ(), "TIDEGATE_MAIN=1")
	return p
}

// start starts the process and the reading of its log.
func (p *process) start(t *testing.T) {
	t.Helper()
	stderr, log, err := os.Pipe() // unlike StderrPipe, this pipe stays open for a successor
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stderr.Close() })
	p.cmd.Stderr = log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = log.Close()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	p.stderr, p.log = stderr, bufio.NewScanner(stderr)
}

// reachable adds an admin server at a Unix socket to a configuration, unless it has one.
func (p *process) reachable(configuration string) string {
	if strings.Contains(configuration, "[admin]") {
		return configuration
	}
	return configuration + "\n[admin]\nlisten = \"unix:" + p.admin + "\"\n"
}

// socketPath returns a path for a Unix socket, which must be short.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "admin")
}

// await reads the log up to a message.
func (p *process) await(t *testing.T, message string) map[string]any {
	t.Helper()
	return p.awaitAll(t, message)[message]
}

// awaitAll reads the log until all messages have come, in any order. Faults of a successor may stand between them.
func (p *process) awaitAll(t *testing.T, messages ...string) map[string]map[string]any {
	t.Helper()
	_ = p.stderr.SetReadDeadline(time.Now().Add(await.Patience))
	got := make(map[string]map[string]any)
	for p.log.Scan() {
		var line map[string]any
		if err := json.Unmarshal(p.log.Bytes(), &line); err != nil {
			t.Logf("log line %q", p.log.Text())
			continue
		}
		if line["level"] == "error" {
			t.Logf("the log has an error: %v", line)
		}
		if message, _ := line["message"].(string); slices.Contains(messages, message) {
			got[message] = line
		}
		if len(got) == len(messages) {
			return got
		}
	}
	t.Fatalf("the log ended before %q; of these came %v: %v", messages, got, p.log.Err())
	return nil
}

// tellLog shows the rest of the log: the reason why a session has ended.
func (p *process) tellLog(t *testing.T) {
	t.Helper()
	_ = p.stderr.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	for p.log.Scan() {
		t.Log(p.log.Text())
	}
}

// TestSignalsEndItPolitely ends with exit code 0, and both the client and the server get a goodbye.
func TestSignalsEndItPolitely(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		accepted := make(chan *gork.Conn, 1)
		server := rakserver.Start(t, func(conn *gork.Conn) { accepted <- conn })
		p := startProcess(t, bridgeConfig(server.String()))
		client, err := gork.DialTimeout(p.addr, await.Patience)
		if err != nil {
			t.Fatal(err)
		}
		served := <-accepted
		p.await(t, "session established")
		if err := p.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		for who, conn := range map[string]*gork.Conn{"client": client, "server": served} {
			select {
			case <-conn.Context().Done():
			case <-time.After(await.Patience):
				t.Errorf("%v: the %s got no goodbye", signal, who)
			}
		}
		if line := p.await(t, "session ended"); line["reason"] != "server-stopped" || line["by"] != "proxy" {
			t.Errorf("%v: the session ended for %v by %v", signal, line["reason"], line["by"])
		}
		p.await(t, "tidegate stopped")
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("%v: %v", signal, err)
		}
	}
}

func TestPing(t *testing.T) {
	p := startProcess(t, bridgeConfig(gameServer(t)))
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{p.addr}, []string{p.addr + ": raknet, ", ` ms, online, "MCPE;A test;"`}},
		{[]string{p.addr, "-p", "all"}, []string{p.addr + ": raknet, ", p.addr + ": riptide-2.2, "}},
		{[]string{"-p", "riptide-2.2", p.addr}, []string{"riptide-2.2", "online, accepts clients"}},
		{[]string{"--json", "-p", "raknet", p.addr}, []string{`"protocol":"raknet"`, `"text":"\"MCPE;A test;\""`}},
	} {
		code, stdout, stderr := tidegate(t, append([]string{"ping"}, c.args...)...)
		for _, want := range c.want {
			if code != 0 || !strings.Contains(stdout, want) {
				t.Errorf("ping %v: code %d, says %q %q; want %q", c.args, code, stdout, stderr, want)
			}
		}
	}
	for _, protocol := range []string{"any", "riptide-2.2"} {
		code, _, stderr := tidegate(t, "ping", "-t", "1h", "-p", protocol, "127.0.0.1:9")
		if code != 1 || !strings.Contains(stderr, "ping 127.0.0.1:9: no server listens there") {
			t.Errorf("ping of a closed port in %s: code %d, says %q", protocol, code, stderr)
		}
	}
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	code, _, stderr := tidegate(t, "ping", silent.LocalAddr().String(), "-t", "200ms")
	if code != 1 || !strings.Contains(stderr, "no answer in 200ms; for a server that speaks neither") {
		t.Errorf("ping of a silent port: code %d, says %q", code, stderr)
	}
}

// TestPingInAnotherProtocol pings a Riptide listener in RakNet. The error says what to try. The listener's log has no
// warning of a drop before the end of the session that the ping in Riptide makes.
func TestPingInAnotherProtocol(t *testing.T) {
	p := startProcess(t, strings.Replace(bridgeConfig("127.0.0.1:1"), `["bedrock", "riptide-2.2"]`, `["riptide-2.2"]`, 1))
	code, _, stderr := tidegate(t, "ping", p.addr, "-p", "bedrock", "-t", "200ms")
	if code != 1 || !strings.Contains(stderr, "no answer in 200ms; does it speak bedrock? -p all asks") {
		t.Errorf("code %d, says %q", code, stderr)
	}
	if code, stdout, _ := tidegate(t, "ping", p.addr, "-p", "all"); code != 1 || !strings.Contains(stdout, "riptide-2.2") {
		t.Errorf("code %d, says %q", code, stdout)
	}
	_ = p.stderr.SetReadDeadline(time.Now().Add(await.Patience))
	for p.log.Scan() && !strings.Contains(p.log.Text(), `"message":"session ended"`) {
		if strings.Contains(p.log.Text(), "drop") {
			t.Errorf("the log has %q: %v", p.log.Text(), p.log.Err())
		}
	}
}

// TestPingEveryProtocol pings a listener of each protocol whose games do not notice it.
func TestPingEveryProtocol(t *testing.T) {
	for _, d := range protocols.All {
		if d.Default().Spec().Closed {
			continue
		}
		text := strings.Replace(bridgeConfig("127.0.0.1:1"), `["bedrock", "riptide-2.2"]`, `["`+d.Name+`"]`, 1)
		p := startProcess(t, strings.Replace(text, `ordered = "fast"`,
			"ordered = \"fast\"\nenvelope = \"framed\"\nallow_lossy = true", 1))
		_, stdout, stderr := tidegate(t, "ping", "--join", p.addr, "-p", d.Name) // its server is dead: the code may be 1
		if !strings.Contains(stdout, "online, ") {
			t.Errorf("%s: says %s%s", d.Name, stdout, stderr)
		}
	}
}

// TestPingLeavesNoDrops pings a listener that speaks RakNet only. It drops nothing, so its log has no warning.
func TestPingLeavesNoDrops(t *testing.T) {
	p := startProcess(t, strings.Replace(bridgeConfig("127.0.0.1:1"), `["bedrock", "riptide-2.2"]`, `["bedrock"]`, 1))
	if code, _, stderr := tidegate(t, "ping", p.addr); code != 0 {
		t.Fatal(stderr)
	}
	if code, stdout, _ := tidegate(t, "why", "127.0.0.1", "--json", "-c", p.file); code != 0 ||
		!strings.Contains(stdout, `"drops":[]`) {
		t.Errorf("code %d, says %s", code, stdout)
	}
}
