package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"
	"golang.org/x/sys/unix"

	"tidegate/internal/testkit/await"
)

// TestUpgradeCommand upgrades by the command, and reports a program file that cannot run.
func TestUpgradeCommand(t *testing.T) {
	p := startProcess(t, bridgeConfig("127.0.0.1:1"))
	code, stdout, stderr := tidegate(t, "upgrade", "-c", p.file)
	if code != 0 || !strings.Contains(stdout, "upgraded from ") {
		t.Errorf("code %d, says %q %q", code, stdout, stderr)
	}
	successor := int(p.await(t, "handed over; this process ends")["successor"].(float64))
	t.Cleanup(func() { _ = syscall.Kill(successor, syscall.SIGKILL) })
	if code, stdout, stderr := tidegate(t, "health", "-c", p.file); code != 0 {
		t.Errorf("the new process: code %d, says %q %q", code, stdout, stderr)
	}

	program := filepath.Join(t.TempDir(), "tidegate")
	if err := os.Link(os.Args[0], program); err != nil {
		t.Skip(err) // another file system
	}
	other := startProgram(t, program, bridgeConfig("127.0.0.1:1"), nil)
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	code, _, stderr = tidegate(t, "upgrade", "-c", other.file)
	if code != 1 || !strings.Contains(stderr, "the proxy was not upgraded: start successor") {
		t.Errorf("without a program file: code %d, says %q", code, stderr)
	}
}

// TestUpgrade replaces a process under load by its successor. Clients stay in the old process, new clients join the
// new one, and the old one ends with its last client.
func TestUpgrade(t *testing.T) {
	const clients = 8
	p := startProcess(t, bridgeConfig(echoServer(t)))
	stop := make(chan struct{})
	var longest atomic.Int64
	var talking sync.WaitGroup
	var conns []*gork.Conn
	join := func() {
		for range clients {
			conn, err := gork.DialTimeout(p.addr, await.Patience)
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
			talking.Go(func() {
				if err := echoes(conn, stop, &longest, new(atomic.Int64)); err != nil {
					t.Errorf("a client: %v", err)
				}
			})
		}
	}
	join()
	if err := p.cmd.Process.Signal(syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	successor := int(p.await(t, "handed over; this process ends")["successor"].(float64))
	t.Cleanup(func() { _ = syscall.Kill(successor, syscall.SIGKILL) })
	join()
	close(stop)
	talking.Wait()
	for _, conn := range conns[:clients] {
		_ = conn.Close()
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the old process ended with %v", err)
	}
	for _, conn := range conns[clients:] {
		if _, err := conn.Write([]byte{0xfe}); err != nil || conn.Context().Err() != nil {
			t.Errorf("a client of the new process is gone: %v", err)
		}
	}
	if err := syscall.Kill(successor, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for _, conn := range conns[clients:] {
		select {
		case <-conn.Context().Done():
		case <-time.After(await.Patience):
			t.Fatal("the new process says no goodbye")
		}
	}
	t.Logf("longest answer: %v", time.Duration(longest.Load()))
}

// TestUpgradeKeepsDrains keeps a drained server drained in the successor.
func TestUpgradeKeepsDrains(t *testing.T) {
	server := gameServer(t)
	p := startProcess(t, bridgeConfig(server))
	if code, _, stderr := tidegate(t, "upstreams", "drain", "-c", p.file, "arena", server); code != 0 {
		t.Fatal(stderr)
	}
	if err := p.cmd.Process.Signal(syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	successor := int(p.await(t, "handed over; this process ends")["successor"].(float64))
	t.Cleanup(func() { _ = syscall.Kill(successor, syscall.SIGKILL) })
	if err := p.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	var stdout string
	await.Until(t, "answered by the successor", func() (answered bool) { // its admin server starts a moment later
		code, answer, _ := tidegate(t, "upstreams", "list", "--json", "-c", p.file)
		stdout = answer
		return code == 0
	})
	if !strings.Contains(stdout, `"state":"draining"`) {
		t.Errorf("the successor's servers: %s", stdout)
	}
}

// TestUpgradeThatFails keeps the old process running if the configuration has a fault.
func TestUpgradeThatFails(t *testing.T) {
	good := bridgeConfig(echoServer(t))
	p := startProcess(t, good)
	p.rewrite(t, strings.Replace(good, `"fast"`, `"soon"`, 1))
	if err := p.cmd.Process.Signal(syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	p.await(t, "upgrade failed; this process continues")
	if got := p.pong(t); got != "MCPE;A test;" {
		t.Errorf("pong %q", got)
	}
}

// TestReloadDuringUpgrade lets a reload wait until an upgrade has failed: a successor would not know the listeners that
// the reload adds, nor their sessions.
func TestReloadDuringUpgrade(t *testing.T) {
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	program, started, ends := in("tidegate"), in("started"), in("ends")
	if err := os.Link(os.Args[0], program); err != nil {
		t.Skip(err) // another file system
	}
	p := startProgram(t, program, bridgeConfig("127.0.0.1:1"), nil)
	script := fmt.Sprintf("#!/bin/sh\n: > %s\nuntil test -e %s; do sleep 0.01; done\nexit 1\n", started, ends)
	if err := errors.Join(os.Remove(program), os.WriteFile(program, []byte(script), 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the upgrade has begun", func() bool { _, err := os.Stat(started); return err == nil })
	reloaded := make(chan int, 1)
	go func() {
		code, _, _ := tidegate(t, "reload", "-c", p.file)
		reloaded <- code
	}()
	select {
	case code := <-reloaded:
		t.Errorf("reloaded during an upgrade, code %d", code)
	case <-time.After(500 * time.Millisecond): // without the wait it takes some milliseconds
	}
	if err := os.WriteFile(ends, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.await(t, "upgrade failed; this process continues")
	p.await(t, "configuration reloaded")
	if code := <-reloaded; code != 0 {
		t.Errorf("after the upgrade, code %d", code)
	}
}

// notified is the service manager's end of notifications.
type notified struct {
	t      *testing.T
	socket *net.UnixConn
}

// listenForNotifications makes the test's processes send their notifications here.
func listenForNotifications(t *testing.T) *notified {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	raw, err := socket.SyscallConn()
	must(t, err)
	var inner error
	err = raw.Control(func(fd uintptr) { inner = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1) })
	must(t, errors.Join(err, inner))
	t.Setenv("NOTIFY_SOCKET", path)
	return &notified{t, socket}
}

// next returns a notification and its sender.
func (n *notified) next() (text string, pid int) {
	n.t.Helper()
	b, oob := make([]byte, 200), make([]byte, 100)
	_ = n.socket.SetReadDeadline(time.Now().Add(await.Patience))
	size, oobSize, _, _, err := n.socket.ReadMsgUnix(b, oob)
	must(n.t, err)
	messages, err := unix.ParseSocketControlMessage(oob[:oobSize])
	if err != nil || len(messages) == 0 {
		n.t.Fatalf("no sender: %v", err)
	}
	sender, err := unix.ParseUnixCredentials(&messages[0])
	must(n.t, err)
	return string(b[:size]), int(sender.Pid)
}

// hears expects a notification of a process that begins with a text.
func (n *notified) hears(want string, from int) {
	n.t.Helper()
	if text, pid := n.next(); !strings.HasPrefix(text, want) || pid != from {
		n.t.Errorf("heard %q of %d; want %q of %d", text, pid, want, from)
	}
}

// TestServiceManager notifies systemd when the process is ready, reloads and stops.
func TestServiceManager(t *testing.T) {
	n := listenForNotifications(t)
	p := startProcess(t, bridgeConfig("127.0.0.1:1"))
	pid := p.cmd.Process.Pid
	n.hears("READY=1", pid)
	_ = p.cmd.Process.Signal(syscall.SIGHUP)
	n.hears("RELOADING=1\nMONOTONIC_USEC=", pid)
	n.hears("READY=1", pid)
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	n.hears("STOPPING=1", pid)
}

// TestServiceManagerDuringUpgrade checks the order of notifications: systemd accepts them from the main process only.
// So the old process names the new one before the new one sends any, and sends nothing from then on.
func TestServiceManagerDuringUpgrade(t *testing.T) {
	n := listenForNotifications(t)
	t.Setenv("WATCHDOG_USEC", "400000")
	p := startProcess(t, bridgeConfig(echoServer(t)))
	client := p.plays(t)
	old := p.cmd.Process.Pid
	n.hears("READY=1", old)
	n.hears("WATCHDOG=1", old)
	successor := p.upgraded(t, old)
	text, pid := n.next()
	for text == "WATCHDOG=1" && pid == old {
		text, pid = n.next()
	}
	if want := fmt.Sprint("MAINPID=", successor, "\nWATCHDOG=1"); text != want || pid != old {
		t.Errorf("heard %q of %d; want %q of %d", text, pid, want, old)
	}
	n.hears("READY=1", successor)
	n.hears("WATCHDOG=1", successor)
	n.hears("WATCHDOG=1", successor)
	_ = client.Close()
	must(t, p.cmd.Wait())
	n.hears("WATCHDOG=1", successor)
	_ = syscall.Kill(successor, syscall.SIGTERM)
	for text, pid = n.next(); text == "WATCHDOG=1"; text, pid = n.next() {
	}
	if text != "STOPPING=1" || pid != successor {
		t.Errorf("heard %q of %d; want STOPPING=1 of %d", text, pid, successor)
	}
}

// TestSocketActivation uses a listener's socket from the service manager.
func TestSocketActivation(t *testing.T) {
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	file, err := socket.File()
	if err != nil {
		t.Fatal(err)
	}
	addr := socket.LocalAddr().String()
	_ = socket.Close()
	p := startProcessWith(t, strings.Replace(bridgeConfig("127.0.0.1:1"), "127.0.0.1:0", addr, 1), file)
	if p.addr != addr || p.pong(t) != "MCPE;A test;" {
		t.Errorf("listening on %s, want %s", p.addr, addr)
	}
}
