package cli

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	gork "github.com/sandertv/go-raknet"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/freeport"
)

// untilFree waits until a UDP address can be bound.
func untilFree(t *testing.T, addr string) {
	t.Helper()
	await.Nil(t, func() error {
		socket, err := net.ListenPacket("udp", addr)
		if err == nil {
			err = socket.Close()
		}
		return err
	})
}

// secondListener returns another listener for bridgeConfig.
func secondListener(addr string) string {
	return "[[listener]]\nname = \"second\"\naddress = \"" + addr + "\"\nprotocols = [\"bedrock\"]\nroute = \"arena\"\n"
}

// reloaded changes a process's configuration and reloads it, which must succeed.
func (p *process) reloaded(t *testing.T, configuration string) {
	t.Helper()
	p.rewrite(t, configuration)
	if code, _, stderr := tidegate(t, "reload", "-c", p.file); code != 0 {
		t.Fatal(stderr)
	}
}

// upgraded replaces a process, and returns the new process's number. No session may be lost.
func (p *process) upgraded(t *testing.T, pid int) (successor int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	const handedOver = "handed over; this process ends"
	lines := p.awaitAll(t, handedOver, "took over", "tidegate is running")
	if lost := lines["took over"]["lost"]; lost != nil {
		t.Errorf("%v sessions are lost: %v", lost, lines["took over"]["error"])
	}
	successor = int(lines[handedOver]["successor"].(float64))
	t.Cleanup(func() { _ = syscall.Kill(successor, syscall.SIGKILL) })
	return successor
}

// TestRollbackAfterUpgrades removes a listener with two upgrades while a client of the first process uses it. The
// third process opens it again. The address is free after the end of the client and the listener.
func TestRollbackAfterUpgrades(t *testing.T) {
	without, second := bridgeConfig(echoServer(t)), freeport.Loopback(t).String()
	with := without + secondListener(second)
	p := startProcess(t, with)
	conn, err := gork.DialTimeout(second, await.Patience)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	p.rewrite(t, without)
	last := p.upgraded(t, p.upgraded(t, p.cmd.Process.Pid))
	p.reloaded(t, with)
	other, err := gork.DialTimeout(second, await.Patience)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*gork.Conn{conn, other} {
		if _, err := c.Write([]byte{0xfe}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.ReadPacket(); err != nil {
			t.Errorf("a client is gone: %v", err)
		}
		_ = c.Close()
	}
	p.reloaded(t, without)
	untilFree(t, second)
	_ = syscall.Kill(last, syscall.SIGTERM)
}

// TestActivatedListenerComesBack removes a listener whose socket the service manager holds, and opens it again.
func TestActivatedListenerComesBack(t *testing.T) {
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	var file *os.File
	if file, err = socket.File(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // the service manager's copy
	addr := socket.LocalAddr().String()
	_ = socket.Close()
	without := bridgeConfig("127.0.0.1:1")
	with := secondListener(addr) + without
	p := startProcessWith(t, with, file)
	for range 2 {
		p.reloaded(t, without)
		p.reloaded(t, with)
		if got := p.pong(t); got != "MCPE;A test;" {
			t.Errorf("pong %q", got)
		}
	}
	p.reloaded(t, without)
	p.upgraded(t, p.cmd.Process.Pid)
	p.reloaded(t, with)
	if got := p.pong(t); !strings.HasPrefix(got, "MCPE;") {
		t.Errorf("after an upgrade: pong %q", got)
	}
}
