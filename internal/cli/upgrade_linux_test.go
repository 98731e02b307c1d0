package cli

import (
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/internal/testkit/await"
)

// TestUpgrade replaces a process under load by its successor: who plays goes on in the old one, who comes later is the
// new one's, and the old one ends with its last player.
func TestUpgrade(t *testing.T) {
	const players = 8
	p := startProcess(t, bridge(echoServer(t)))
	stop := make(chan struct{})
	var longest atomic.Int64
	var talking sync.WaitGroup
	var conns []*gork.Conn
	join := func() {
		for range players {
			conn, err := gork.DialTimeout(p.addr, await.Patience)
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
			talking.Go(func() {
				if err := echoes(conn, stop, &longest); err != nil {
					t.Errorf("a player: %v", err)
				}
			})
		}
	}
	join()
	if err := p.cmd.Process.Signal(syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	successor := int(p.await(t, "handed over; ending with the last session")["successor"].(float64))
	t.Cleanup(func() { _ = syscall.Kill(successor, syscall.SIGKILL) })
	join()
	close(stop)
	talking.Wait()
	for _, conn := range conns[:players] {
		_ = conn.Close()
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the old process ended with %v", err)
	}
	for _, conn := range conns[players:] {
		if _, err := conn.Write([]byte{0xfe}); err != nil || conn.Context().Err() != nil {
			t.Errorf("a player of the new process is gone: %v", err)
		}
	}
	if err := syscall.Kill(successor, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for _, conn := range conns[players:] {
		select {
		case <-conn.Context().Done():
		case <-time.After(await.Patience):
			t.Fatal("the new process says no goodbye")
		}
	}
	t.Logf("longest answer: %v", time.Duration(longest.Load()))
}

// TestUpgradeKeepsDrains: a server that an operator has taken out of use stays so in the successor.
func TestUpgradeKeepsDrains(t *testing.T) {
	server := gameServer(t)
	p := startProcess(t, bridge(server))
	if code, _, stderr := tidegate(t, "upstreams", "drain", "-c", p.file, "arena", server); code != 0 {
		t.Fatal(stderr)
	}
	if err := p.cmd.Process.Signal(syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	successor := int(p.await(t, "handed over; ending with the last session")["successor"].(float64))
	t.Cleanup(func() { _ = syscall.Kill(successor, syscall.SIGKILL) })
	if err := p.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	var stdout string
	await.Until(t, "answered by the successor", func() (answered bool) { // which listens to operators a moment later
		code, answer, _ := tidegate(t, "upstreams", "list", "--json", "-c", p.file)
		stdout = answer
		return code == 0
	})
	if !strings.Contains(stdout, `"state":"draining"`) {
		t.Errorf("the successor's servers: %s", stdout)
	}
}

// TestUpgradeThatFails: with a configuration that has become bad, the old process goes on.
func TestUpgradeThatFails(t *testing.T) {
	good := bridge(echoServer(t))
	p := startProcess(t, good)
	p.rewrite(t, strings.Replace(good, `"fast"`, `"soon"`, 1))
	if err := p.cmd.Process.Signal(syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	p.await(t, "not upgraded; this process goes on")
	if got := p.pong(t); got != "MCPE;A test;" {
		t.Errorf("pong %q", got)
	}
}

// TestServiceManager: systemd is told when the process is ready, reloads and stops.
func TestServiceManager(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	t.Setenv("NOTIFY_SOCKET", path)
	hears := func(want string) {
		t.Helper()
		b := make([]byte, 200)
		_ = socket.SetReadDeadline(time.Now().Add(await.Patience))
		n, err := socket.Read(b)
		if err != nil || !strings.HasPrefix(string(b[:n]), want) {
			t.Errorf("heard %q, %v; want %q", b[:n], err, want)
		}
	}
	p := startProcess(t, bridge("127.0.0.1:1"))
	hears("READY=1")
	_ = p.cmd.Process.Signal(syscall.SIGHUP)
	hears("RELOADING=1\nMONOTONIC_USEC=")
	hears("READY=1")
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	hears("STOPPING=1")
}

// TestSocketActivation: a listener's socket comes from the service manager.
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
	p := startProcessWith(t, strings.Replace(bridge("127.0.0.1:1"), "127.0.0.1:0", addr, 1), file)
	if p.addr != addr || p.pong(t) != "MCPE;A test;" {
		t.Errorf("listening on %s, want %s", p.addr, addr)
	}
}
