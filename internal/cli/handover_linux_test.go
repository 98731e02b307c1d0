package cli

import (
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	gork "github.com/sandertv/go-raknet"

	"tidegate/internal/daemon"
	"tidegate/internal/record"
	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/rakserver"
)

// diesAt is the environment variable that ends this test's program before a step of an upgrade.
const diesAt = "TIDEGATE_TEST_DIES_AT"

func init() {
	if step := os.Getenv(diesAt); step != "" {
		daemon.AtStep = func(at string) {
			if at == step {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
	}
}

// TestUpgradeWhoseSuccessorDies kills the successor before each of its steps. The old process goes on, its players do
// not notice, and the next upgrade succeeds.
func TestUpgradeWhoseSuccessorDies(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/tidegate"
	copyOfSelf(t, path)
	p := startProgram(t, path, bridgeConfig(echoServer(t)), nil)
	talk := p.talking(t, 4)
	self, err := os.Executable()
	must(t, err)
	for _, step := range []string{
		"successor is ready", "successor has sockets", "successor has copies", "successor received all",
		"successor imported all", "successor goes",
	} {
		script := "#!/bin/sh\nexport " + diesAt + "='" + step + "'\nexec " + self + " \"$@\"\n"
		must(t, os.Rename(path, path+".before"))
		must(t, os.WriteFile(path, []byte(script), 0o755))
		must(t, p.cmd.Process.Signal(syscall.SIGUSR2))
		line := p.await(t, "upgrade failed; this process continues")
		t.Logf("%s: the operator sees %v", step, line["error"])
		talk.goesOn(t)
	}
	must(t, os.Rename(path, path+".before"))
	release(t, path)
	p.isUpgraded(t, path)
	talk.goesOn(t)
	talk.end(t)
}

// startWith starts a bridge to a server that echoes, with a variable in its environment.
func startWith(t *testing.T, variable string) *process {
	t.Helper()
	p := newProcess(t, os.Args[0], write(t, ""))
	p.rewrite(t, bridgeConfig(echoServer(t)))
	p.cmd.Env = append(p.cmd.Env, variable)
	p.start(t)
	p.addr = p.await(t, "listening")["address"].(string)
	p.await(t, "tidegate is running")
	return p
}

// TestUpgradeWhosePredecessorDies kills the old process at each step. Before it has sent all, its sessions are lost, as
// in any crash, and the successor serves new players. Later no player notices.
func TestUpgradeWhosePredecessorDies(t *testing.T) {
	for step, keeps := range map[string]bool{
		"process copies the sessions":   false,
		"process stands still":          false,
		"process sent the sessions":     false,
		"process sent all":              true,
		"process lets the successor go": true,
		"successor runs":                true,
	} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			p := startWith(t, diesAt+"="+step)
			var talk *talking
			if keeps {
				talk = p.talking(t, 4)
			}
			must(t, p.cmd.Process.Signal(syscall.SIGUSR2))
			line := p.await(t, "took over")
			if got, want := line["sessions"], float64(map[bool]int{true: 4}[keeps]); got != want {
				t.Errorf("the successor has %v sessions, want %v", got, want)
			}
			_ = p.cmd.Wait()
			p.await(t, "tidegate is running")
			t.Cleanup(func() { // ends the successor
				if code, _, stderr := separately(t, "drain", "-c", p.file); code != 0 {
					t.Errorf("the successor's admin server: exit code %d, %s", code, stderr)
				}
			})
			if keeps {
				talk.goesOn(t)
				talk.end(t)
			}
			p.plays(t)
		})
	}
}

// TestUpgradeDuringAHold upgrades while a player has lost its server. The successor finds the server again, and the
// player stays.
func TestUpgradeDuringAHold(t *testing.T) {
	t.Parallel()
	serve := func(at string) (*gork.Listener, <-chan *gork.Conn) {
		listener, err := gork.Listen(at)
		must(t, err)
		t.Cleanup(func() { _ = listener.Close() })
		accepted := make(chan *gork.Conn, 1)
		go func() {
			if conn, err := listener.Accept(); err == nil {
				accepted <- conn.(*gork.Conn)
				rakserver.Echo(conn.(*gork.Conn))
			}
		}()
		return listener, accepted
	}
	listener, accepted := serve("127.0.0.1:0")
	at := listener.Addr().String()
	p := startProcess(t, strings.Replace(bridgeConfig(at), "ordered = ",
		"failover = \"hold\"\nhold_goodbyes = true\nhold_time = \"1m\"\nordered = ", 1))
	player := p.plays(t)
	must(t, (<-accepted).Close())
	must(t, listener.Close())
	comesTo := func(state string) {
		t.Helper()
		await.Until(t, state, func() bool {
			_, stdout, _ := separately(t, "sessions", "list", "--state", state, "--count", "-c", p.file)
			return stdout == "1\n"
		})
	}
	comesTo("held")
	p.upgraded(t, p.cmd.Process.Pid)
	comesTo("held")
	serve(at)
	comesTo("established")
	if _, err := player.Write([]byte{0xfe, 7}); err != nil {
		t.Fatal(err)
	}
	for heard := byte(0); heard != 7; { // the new server also hears what the old one had not acknowledged
		b, err := player.ReadPacket()
		if err != nil {
			t.Fatal(err)
		}
		heard = b[1]
	}
}

// TestUpgradesInARow replaces the process twenty times while players come, talk and go.
func TestUpgradesInARow(t *testing.T) {
	t.Parallel()
	p := startProcess(t, bridgeConfig(echoServer(t)))
	talk := p.talking(t, 8)
	pid := p.cmd.Process.Pid
	for range 20 {
		visitor := p.plays(t)
		next := p.upgraded(t, pid)
		if _, err := visitor.Write([]byte{0xfe, 9}); err != nil {
			t.Fatal(err)
		}
		if _, err := visitor.ReadPacket(); err != nil {
			t.Fatalf("a visitor is gone: %v", err)
		}
		_ = visitor.Close()
		pid = next
	}
	talk.end(t)
	must(t, syscall.Kill(pid, syscall.SIGTERM))
}

// TestUpgradeInTrouble upgrades while reloads, a capture and a flood of strangers are under way.
func TestUpgradeInTrouble(t *testing.T) {
	t.Parallel()
	p := startProcess(t, bridgeConfig(echoServer(t)))
	talk := p.talking(t, 4)
	stop := make(chan struct{})
	var trouble sync.WaitGroup
	defer trouble.Wait()
	defer close(stop)
	during := func(f func()) {
		trouble.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					f()
				}
			}
		})
	}
	during(func() { _, _, _ = separately(t, "reload", "-c", p.file) })
	during(func() {
		_, _, _ = separately(t, "capture", "-c", p.file, "--for", "1s", "--force", "-o", "/dev/null")
	})
	during(func() {
		if conn, err := gork.DialTimeout(p.addr, await.Patience); err == nil {
			_ = conn.Close()
		}
	})
	pid := p.cmd.Process.Pid
	for range 3 {
		pid = p.upgraded(t, pid)
		talk.goesOn(t)
	}
	talk.end(t)
}

// TestUpgradeFromAnotherFormat starts a successor that does not know the format of its predecessor, or the version of
// its records.
func TestUpgradeFromAnotherFormat(t *testing.T) {
	for odd, want := range map[string]string{
		"handover": "hands over in format 2, this release ", "records": `writes records of "bedrock" in version 1000`,
	} {
		t.Run(odd, func(t *testing.T) {
			t.Parallel()
			p := startWith(t, oddFormat+"="+odd)
			talk := p.talking(t, 2)
			must(t, p.cmd.Process.Signal(syscall.SIGUSR2))
			text, _ := p.await(t, "upgrade failed; this process continues")["error"].(string)
			t.Logf("the operator sees %s", text)
			if !strings.Contains(text, want) || !strings.Contains(text, "restart instead") {
				t.Errorf("the operator sees %q", text)
			}
			talk.goesOn(t)
			talk.end(t)
		})
	}
}

// oddFormat is the environment variable that makes this test's program hand over in an unknown format: of the
// "handover", or of its "records".
const oddFormat = "TIDEGATE_TEST_ODD_FORMAT"

func init() {
	if os.Getenv("TIDEGATE_PREDECESSOR") != "" {
		return
	}
	switch os.Getenv(oddFormat) {
	case "handover":
		daemon.HandoverFormat++
	case "records":
		record.Register[struct{ record.Head }](1000, "bedrock")
	}
}

// talking are players that talk without a pause.
type talking struct {
	stop    chan struct{}
	ended   sync.WaitGroup
	echoes  atomic.Int64 // so far
	longest atomic.Int64
	failed  chan error
}

// talking makes players join and talk.
func (p *process) talking(t *testing.T, players int) *talking {
	t.Helper()
	talk := &talking{stop: make(chan struct{}), failed: make(chan error, players)}
	for range players {
		conn, err := gork.DialTimeout(p.addr, await.Patience)
		must(t, err)
		talk.ended.Go(func() {
			defer func() { _ = conn.Close() }()
			if err := echoes(conn, talk.stop, &talk.longest, &talk.echoes); err != nil {
				talk.failed <- err
			}
		})
	}
	return talk
}

// goesOn waits until each player has been heard again.
func (talk *talking) goesOn(t *testing.T) {
	t.Helper()
	before := talk.echoes.Load()
	await.Until(t, "heard", func() bool { return talk.echoes.Load() > before+100 || len(talk.failed) > 0 })
	if len(talk.failed) > 0 {
		t.Fatalf("a player: %v", <-talk.failed)
	}
}

// end ends the talk. No player may have failed.
func (talk *talking) end(t *testing.T) {
	t.Helper()
	close(talk.stop)
	talk.ended.Wait()
	if len(talk.failed) > 0 {
		t.Errorf("a player: %v", <-talk.failed)
	}
}

// TestUpgradeDuringAFlood upgrades while strangers send as many requests for a session as the machine can.
func TestUpgradeDuringAFlood(t *testing.T) {
	p := startProcess(t, bridgeConfig(echoServer(t)))
	talk := p.talking(t, 4)
	stop := make(chan struct{})
	var flood sync.WaitGroup
	defer flood.Wait()
	defer close(stop)
	var sent atomic.Int64
	for range 2 {
		flood.Go(func() {
			// An open connection request 1 of RakNet.
			request := append([]byte{5, 0, 255, 255, 0, 254, 254, 254, 254, 253, 253, 253, 253, 18, 52, 86, 120, 11},
				make([]byte, 1000)...)
			for {
				conn, err := net.Dial("udp", p.addr)
				if err != nil {
					continue // no port is free for a moment
				}
				for range 100 {
					_, _ = conn.Write(request) // the flooded socket may refuse it
				}
				_ = conn.Close()
				sent.Add(100)
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	pid := p.cmd.Process.Pid
	for range 3 {
		before := sent.Load()
		pid = p.upgraded(t, pid)
		talk.goesOn(t)
		t.Logf("%d datagrams of the flood during the upgrade", sent.Load()-before)
	}
	talk.end(t)
}
