package cli

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/freeport"
)

// drillPage has the incidents: a heading for each, and below it the commands and what they print.
const drillPage = "docs/operate/drill.md"

// drill brings an incident about. It returns the process to ask, and what stands for the addresses of the page.
type drill func(t *testing.T) (*process, map[string]string)

// TestDrill brings each incident of the page about, and runs the page's commands: three at most for an incident. They
// print what the page shows. A part of a line stands for the line, and … for anything.
func TestDrill(t *testing.T) {
	text, err := os.ReadFile(drillPage)
	must(t, err)
	incidents := strings.Split(string(text), "\n## ")[1:]
	drills := map[string]drill{
		"A server dies silently": silentServer, "A flood meets a tight limit": tightLimit,
		"One player cannot join": strangePlayer, "A node is cut off": cutOff, "The disk is full": diskFull,
	}
	if len(incidents) != len(drills) {
		t.Errorf("%d incidents, want %d", len(incidents), len(drills))
	}
	for _, incident := range incidents {
		heading, body, _ := strings.Cut(incident, "\n")
		t.Run(heading, func(t *testing.T) {
			t.Parallel() // they mostly wait
			begin := drills[heading]
			if begin == nil {
				t.Fatal("no such drill")
			}
			_, block, _ := strings.Cut(body, "```console\n")
			block, _, _ = strings.Cut(block, "```")
			commands := strings.Split(block, "$ tidegate ")[1:]
			if len(commands) == 0 || len(commands) > 3 {
				t.Fatalf("%d commands, want one to three", len(commands))
			}
			p, names := begin(t)
			for _, command := range commands {
				line, shown, _ := strings.Cut(command, "\n")
				p.shows(t, names, line, shown)
			}
		})
	}
}

// shows runs a command until it prints all lines that a page shows.
func (p *process) shows(t *testing.T, names map[string]string, line, shown string) {
	t.Helper()
	for name, real := range names {
		line, shown = strings.ReplaceAll(line, name, real), strings.ReplaceAll(shown, name, real)
	}
	args := strings.Fields(line)
	if args[0] != "ping" {
		args = append(args, "--admin", "unix:"+p.admin)
	}
	await.Nil(t, func() error {
		_, stdout, stderr := separately(t, args...)
		for want := range strings.Lines(shown) {
			pattern := strings.Join(strings.Fields(regexp.QuoteMeta(want)), `\s+`)
			if !regexp.MustCompile(strings.ReplaceAll(pattern, "…", ".*")).MatchString(stdout + stderr) {
				return fmt.Errorf("tidegate %s prints\n%s%s, want %s", line, stdout, stderr, want)
			}
		}
		return nil
	})
}

// riptideArena is a configuration with Riptide on both sides.
func riptideArena(server string) string {
	return strings.NewReplacer(`"bedrock", "riptide-2.2"`, `"riptide-2.2"`, `protocol = "bedrock"`,
		`protocol = "riptide-2.2"`, "[raknet]", "[limits]\nhandshake_timeout = \"1s\"\n", "pong = \"MCPE;A test;\"", "").
		Replace(bridgeConfig(server))
}

// silentServer is a game server that hears players, and says nothing.
func silentServer(t *testing.T) (*process, map[string]string) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	at := server.LocalAddr().String()
	p := startProcess(t, riptideArena(at))
	await.Until(t, "players find it dead", func() bool {
		_, _, _ = separately(t, "ping", "--join", p.addr)
		code, list, _ := separately(t, "upstreams", "list", "-c", p.file)
		return code == 0 && strings.Contains(list, at) && !strings.Contains(list, "  up ")
	})
	return p, map[string]string{"10.0.0.5:7777": at}
}

// tightLimit is a limit of joins that returning players spend, under a flood.
func tightLimit(t *testing.T) (*process, map[string]string) {
	p := startProcess(t, bridgeConfig(echoServer(t))+
		"[[limit]]\nof = \"handshakes\"\nper = \"overall\"\nrate = 1\nburst = 1\n")
	flood := &troubles{stopped: make(chan struct{})}
	for range 4 { // of joins, so that the limit is used up all the time
		flood.run(func() {
			if player, err := gork.DialTimeout(p.addr, time.Second); err == nil {
				_ = player.Close()
			}
		})
	}
	t.Cleanup(flood.stop)
	return p, map[string]string{"203.0.113.7": "127.0.0.1"}
}

// strangePlayer speaks a protocol that the listener does not have.
func strangePlayer(t *testing.T) (*process, map[string]string) {
	p := startProcess(t, bridgeConfig(echoServer(t)))
	player, err := net.Dial("udp", p.addr)
	must(t, err)
	t.Cleanup(func() { _ = player.Close() })
	_, err = player.Write([]byte("a game of its own"))
	must(t, err)
	return p, map[string]string{"203.0.113.7": "127.0.0.1"}
}

// cutOff is one of two nodes. The other has ended.
func cutOff(t *testing.T) (*process, map[string]string) {
	both := [2]string{freeport.Loopback(t).String(), freeport.Loopback(t).String()}
	var nodes [2]*process
	for i := range nodes {
		nodes[i] = startProcess(t, bridgeConfig(echoServer(t))+fmt.Sprintf(
			"[fleet]\nnode = \"ams%d\"\nlisten = %q\npeers = [%q, %q]\nstore = %q\nsecret = \"0123456789abcdef\"\n",
			i+1, both[i], both[0], both[1], t.TempDir()))
	}
	await.Until(t, "shared", func() bool {
		code, _, _ := separately(t, "fleet", "status", "-c", nodes[0].file)
		return code == 0
	})
	must(t, nodes[1].cmd.Process.Kill())
	return nodes[0], map[string]string{}
}

// diskFull is a process whose access log has no room left.
func diskFull(t *testing.T) (*process, map[string]string) {
	folder := t.TempDir()
	try := exec.Command("unshare", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "tmpfs", t.TempDir())
	if err := try.Run(); err != nil {
		t.Skip(err)
	}
	program := filepath.Join(folder, "on-full-disk")
	must(t, os.Mkdir(filepath.Join(folder, "log"), 0o700))
	must(t, os.WriteFile(program, fmt.Appendf(nil, `#!/bin/sh
exec unshare --map-root-user --mount sh -c 'mount -t tmpfs -o size=16k tmpfs %[1]s/log && : > %[1]s/log/access.jsonl &&
{ cat /dev/zero > %[1]s/log/filler 2>/dev/null; exec "$0" "$@"; }' %[2]s "$@"
`, folder, os.Args[0]), 0o700))
	p := startProgram(t, program, bridgeConfig(echoServer(t))+
		fmt.Sprintf("[log]\naccess_file = \"%s/log/access.jsonl\"\n", folder), nil)
	player, err := gork.DialTimeout(p.addr, await.Patience)
	must(t, err)
	must(t, player.Close())
	return p, map[string]string{"/var/log/tidegate": filepath.Join(folder, "log")}
}
