//go:build interop && chaos

package interop_test

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/internal/testkit/await"
)

// unreadLog fills the pipe of a log that is not read.
func unreadLog(t *testing.T) string {
	return noisy(t, func(log *os.File) {
		raw, err := log.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		_ = raw.Control(func(fd uintptr) { _, err = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 4096) })
		if err != nil {
			t.Fatal(err)
		}
	})
}

// deadLogReader closes the reading end of the log's pipe.
func deadLogReader(t *testing.T) string {
	return noisy(t, func(log *os.File) {
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// noisy runs the binary, does something to its log, has it log much, plays, and ends it.
func noisy(t *testing.T, harm func(log *os.File)) string {
	g := newGate(t, bedrock(t, startGoServer(t)))
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = read.Close() })
	g.proxy = &proxy{process: &process{cmd: exec.Command(tidegate, "run", "-c", g.file)}}
	g.cmd.Stderr = write
	g.cmd.SysProcAttr = &syscall.SysProcAttr{}
	endWithTest(g.cmd.SysProcAttr)
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = write.Close() // the process has it
	g.wait = sync.OnceValue(g.cmd.Wait)
	t.Cleanup(func() { _ = g.cmd.Process.Kill(); _ = g.wait() })
	g.ready(t)
	harm(read)
	before := joins(t, g.plan.port)
	const reloads = 60
	for range reloads { // each is a line
		g.signal(t, syscall.SIGHUP)
		before.plays(t)
	}
	for range 20 {
		g.reload(t, func(*plan) {})
	}
	after := joins(t, g.plan.port)
	before.plays(t)
	after.plays(t)
	took := g.ends(t)
	before.isTold(t)
	after.isTold(t)
	return fmt.Sprintf("2 of 2 play and are told, SIGTERM took %s, exit code 0", seconds(took))
}

// crash looks at exit codes, and at what the shipped unit makes of them.
func crash(t *testing.T) string {
	unit, err := os.ReadFile("../packaging/systemd/tidegate.service")
	if err != nil {
		t.Fatal(err)
	}
	final := regexp.MustCompile(`(?m)^RestartPreventExitStatus=(.*)$`).FindStringSubmatch(string(unit))
	if len(final) != 2 || final[1] != "78" || !strings.Contains(string(unit), "\nRestart=always\n") {
		t.Errorf("the unit restarts by other rules: %v", final)
	}
	g := bedrock(t, startGoServer(t)).open(t)
	player := joins(t, g.plan.port)
	player.plays(t)
	g.signal(t, syscall.SIGQUIT) // ends as Go's fatal errors do
	crashed := g.exitCode(t)
	began := time.Now()
	g.start(t, tidegate)
	joins(t, g.plan.port).plays(t)
	back := time.Since(began)
	g.ends(t)
	g.plan.route = "packet_id = 999"
	g.write(t)
	_, faulty := g.command(t, "run", "-c", g.file)
	if crashed != 2 || faulty != 78 {
		t.Errorf("exit codes %d and %d, want 2 and 78", crashed, faulty)
	}
	return fmt.Sprintf("%d and %d, players are in %s after the restart", crashed, faulty, seconds(back))
}

// rollback takes a listener out and puts it back, twice, with a player of it.
func rollback(t *testing.T) string {
	g := bedrock(t, startGoServer(t)).open(t)
	port := g.plan.port
	stays := joins(t, port)
	for round := range 2 {
		g.reload(t, func(p *plan) { p.port = freePort(t) })
		stays.plays(t)
		if round == 1 {
			g.upgraded(t, tidegate)
		}
		g.reload(t, func(p *plan) { p.port = port })
		joins(t, port).plays(t)
		stays.plays(t)
	}
	return "4 of 4 reloads, with an upgrade between; 2 new players join there, the first plays on"
}

// upgraded upgrades the process, and returns the successor's process ID. The file of its program must be at a path.
func (g *gate) upgraded(t *testing.T, path string) (pid int) {
	t.Helper()
	g.signal(t, syscall.SIGUSR2)
	pid = g.await(t, "handed over; this process ends").Successor
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	runs, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err == nil && runs != path {
		t.Errorf("the successor runs %s, want %s", runs, path)
	}
	g.ready(t)
	return pid
}

// upgradeMoved installs a new release as operators do, and upgrades.
func upgradeMoved(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "tidegate")
	install := func() {
		if err := copyFile(path, tidegate); err != nil {
			t.Fatal(err)
		}
	}
	install()
	g := bedrock(t, startGoServer(t)).openBy(t, path)
	player := joins(t, g.plan.port)
	if err := os.Rename(path, path+".bak"); err != nil {
		t.Fatal(err)
	}
	install()
	g.upgraded(t, path)
	player.plays(t)
	joins(t, g.plan.port).plays(t)
	return "the new file runs, 1 of 1 plays on, a new player joins"
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	defer out.Close()
	_, err = io.Copy(out, in)
	return err
}

// frozen stops the process, and lets players come while it stands.
func frozen(t *testing.T) string {
	g := bedrock(t, startGoServer(t)).open(t)
	riptide := riptideToBedrock(g.plan.servers[0]).open(t)
	gates := []*gate{g, riptide}
	for _, g := range gates {
		g.signal(t, syscall.SIGSTOP)
	}
	come := time.After(8 * time.Second)
	awake := make(chan time.Time, 1)
	time.AfterFunc(10*time.Second, func() {
		for _, g := range gates {
			_ = g.cmd.Process.Signal(syscall.SIGCONT)
		}
		awake <- time.Now()
	})
	players := newCrowd(t, "riptide-2.2", udp)
	var late [2]time.Duration
	var joining sync.WaitGroup
	came := make([]goPlayer, 5)
	<-come
	for i := range came {
		joining.Go(func() { came[i] = joins(t, g.plan.port) })
		players.dial(riptide.plan.port)
	}
	woke := <-awake
	joining.Wait()
	late[0] = time.Since(woke)
	await.Until(t, "joined", func() bool { return players.up() == len(came) })
	late[1] = time.Since(woke)
	if max(late[0], late[1]) > 2*time.Second {
		t.Errorf("the last players joined %v after SIGCONT", late)
	}
	return fmt.Sprintf("10 of 10, the last RakNet one after %s, the last Riptide one after %s",
		seconds(late[0]), seconds(late[1]))
}

// onFullDisk runs the binary where the folder of the file of bans is a file system without room.
const onFullDisk = `mount -t tmpfs -o size=16k tmpfs "$0" &&
echo '{"prefix":"203.0.113.0/24","until":"2020-01-01T00:00:00Z"}' > "$0/bans" &&
echo '{"prefix":"127.0.0.7/32"}' >> "$0/bans" && : > "$0/bans.lock" &&
{ cat /dev/zero > "$0/filler" 2>/dev/null; exec "$@"; }`

func fullDisk(t *testing.T) string {
	dir := t.TempDir()
	p := bedrock(t, startGoServer(t))
	p.more = fmt.Sprintf("[bans]\nfile = %q", filepath.Join(dir, "bans"))
	g := p.openBy(t, "unshare", "--map-root-user", "--mount", "sh", "-c", onFullDisk, dir, tidegate)
	g.await(t, "ban file not written; its bans are in force")
	banned := newCrowd(t, "bedrock", udp)
	banned.local = netip.MustParseAddr("127.0.0.7")
	banned.dial(g.plan.port)
	for range 10 {
		joins(t, g.plan.port).plays(t)
	}
	if banned.up() > 0 {
		t.Error("a banned player joined")
	}
	return "it starts and says so, the banned player is refused, another plays"
}

// longReason gives the binary a file of bans as an older release could write it.
func longReason(t *testing.T) string {
	p := bedrock(t, startGoServer(t))
	file := filepath.Join(t.TempDir(), "bans")
	p.more = fmt.Sprintf("[bans]\nfile = %q", file)
	reason := strings.Repeat("x", 9000)
	ban := fmt.Appendf(nil, "{\"prefix\":\"203.0.113.7/32\",\"reason\":%q}\n", reason)
	if err := os.WriteFile(file, ban, 0o600); err != nil {
		t.Fatal(err)
	}
	g := p.open(t)
	if out, code := g.command(t, "ban", "list", "-c", g.file); code != 0 || !strings.Contains(out, "203.0.113.7") {
		t.Errorf("the list of bans: %.200s", out)
	}
	out, code := g.command(t, "ban", "add", "-c", g.file, "--reason", reason, "203.0.113.8")
	if code == 0 || !strings.Contains(out, "1024") {
		t.Errorf("a ban with such a reason was added: %.200s", out)
	}
	return "read, the ban is in force; ban add refuses more than 1,024 bytes"
}
