package cli

import (
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/internal/daemon"
	"tidegate/internal/record"
	"tidegate/internal/testkit/await"
)

// diesAt is the environment variable that ends this test's program before a step of an upgrade.
const diesAt = "TIDEGATE_TEST_DIES_AT"

// hangsAt is the variable that lets the program hang there.
const hangsAt = "TIDEGATE_TEST_HANGS_AT"

func init() {
	if dies, hangs := os.Getenv(diesAt), os.Getenv(hangsAt); dies != "" || hangs != "" {
		atStep = func(at string) {
			if at == dies {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			if at == dies || at == hangs {
				select {}
			}
		}
	}
}

// TestUpgradeWhoseSuccessorHangs lets the successor hang at its last steps, while the process stands still. The log has
// the longest wait of a player. It was 5 s before the standstill was bounded by the pre-copy.
func TestUpgradeWhoseSuccessorHangs(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/tidegate"
	copyOfSelf(t, path)
	p := startProgram(t, path, bridgeConfig(echoServer(t)), nil)
	talk := p.talking(t, 4)
	self, err := os.Executable()
	must(t, err)
	for _, step := range []string{"successor received all", "successor imported all", "successor goes"} {
		script := "#!/bin/sh\nexport " + hangsAt + "='" + step + "'\nexec " + self + " \"$@\"\n"
		must(t, os.Rename(path, path+".before"))
		writeProgram(t, path, []byte(script))
		must(t, p.cmd.Process.Signal(syscall.SIGUSR2))
		line := p.await(t, "upgrade failed; this process continues")
		talk.goesOn(t)
		t.Logf("%s: the operator sees %v; a player waits %v", step, line["error"], time.Duration(talk.longest.Load()))
	}
	talk.end(t)
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
		writeProgram(t, path, []byte(script))
		must(t, p.cmd.Process.Signal(syscall.SIGUSR2))
		line := p.await(t, "upgrade failed; this process continues")
		t.Logf("%s: the operator sees %v", step, line["error"])
		if text, _ := line["error"].(string); !strings.HasSuffix(text, "the other process has ended: signal: killed") {
			t.Errorf("%s: the operator sees %q", step, text)
		}
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
		"process has its successor ready": false,
		"process copies the sessions":     false,
		"process stands still":            false,
		"process sent the sessions":       false,
		"process sent all":                true,
		"process lets the successor go":   true,
		"successor runs":                  true,
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
				if code, _, stderr := separately(t, "drain", "--wait", "-c", p.file); code != 0 {
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

// TestUpgradesInARow replaces the process twenty times while players of all protocols come, talk and go.
func TestUpgradesInARow(t *testing.T) {
	t.Parallel()
	others := newGames(t)
	p := startProcess(t, bridgeConfig(echoServer(t))+others.configuration()+manyFromOneAddress)
	talk := p.talking(t, 8)
	others.begin(t, p)
	visits := others.visit(t)
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
	visits.stop(t, 20)
	others.goOn(t, p)
	others.end(t)
	talk.end(t)
	must(t, syscall.Kill(pid, syscall.SIGTERM))
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
