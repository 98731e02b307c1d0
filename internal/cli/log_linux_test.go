package cli

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/internal/netio"
	"tidegate/internal/testkit/await"
)

// setPipeSize is F_SETPIPE_SZ of fcntl(2).
const setPipeSize = 1031

// narrow makes a pipe as small as possible, so that a few lines fill it.
func narrow(t *testing.T, end *os.File) {
	t.Helper()
	raw, err := end.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed syscall.Errno
	err = raw.Control(func(fd uintptr) {
		_, _, failed = syscall.Syscall(syscall.SYS_FCNTL, fd, setPipeSize, 4096)
	})
	if err != nil || failed != 0 {
		t.Fatal(err, failed)
	}
}

// talkative makes a process log many times the size of its pipe.
func (p *process) talkative(t *testing.T) {
	t.Helper()
	for range 100 {
		if code, _, stderr := tidegate(t, "reload", "-c", p.file); code != 0 {
			t.Fatal(stderr)
		}
	}
}

// plays joins with a client and checks that it gets an answer.
func (p *process) plays(t *testing.T) *gork.Conn {
	t.Helper()
	conn, err := gork.DialTimeout(p.addr, await.Patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write([]byte{0xfe, 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ReadPacket(); err != nil {
		t.Fatal(err)
	}
	return conn
}

// endsWithGoodbye ends a process. Its client must get a goodbye, and the exit code must be 0.
func (p *process) endsWithGoodbye(t *testing.T, client *gork.Conn) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-client.Context().Done():
	case <-time.After(await.Patience):
		t.Error("the client got no goodbye")
	}
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the process ended with %v", err)
		}
	case <-time.After(await.Patience):
		t.Error("the process does not end")
	}
}

// TestLogWithoutReader fills the pipe of a log without a reader. Clients play, the admin server answers, and the
// process ends in time.
func TestLogWithoutReader(t *testing.T) {
	p := startProcess(t, bridgeConfig(echoServer(t)))
	narrow(t, p.stderr)
	client := p.plays(t)
	p.talkative(t)
	if p.plays(t); !strings.HasPrefix(p.pong(t), "MCPE;") {
		t.Error("no pong")
	}
	p.endsWithGoodbye(t, client)
}

// TestLogIsReadAgain continues a log that was not read for a while.
func TestLogIsReadAgain(t *testing.T) {
	p := startProcess(t, bridgeConfig(echoServer(t)))
	narrow(t, p.stderr)
	p.talkative(t)
	for range 100 {
		p.await(t, "configuration reloaded")
	}
	p.endsWithGoodbye(t, p.plays(t))
}

// TestLogWhoseReaderHasDied keeps the process running after the end of the log's reader. The process says goodbye at
// its end.
func TestLogWhoseReaderHasDied(t *testing.T) {
	p := startProcess(t, bridgeConfig(echoServer(t)))
	if err := p.stderr.Close(); err != nil {
		t.Fatal(err)
	}
	client := p.plays(t)
	p.talkative(t)
	p.endsWithGoodbye(t, client)
}

// TestUpgradeWithFullLog starts a successor although its log is the same full pipe.
func TestUpgradeWithFullLog(t *testing.T) {
	good := bridgeConfig(echoServer(t))
	p := startProcess(t, good)
	narrow(t, p.stderr)
	client := p.plays(t)
	p.talkative(t)
	t.Cleanup(func() { // a busy machine may refuse the first request
		await.Until(t, "the successor's drain", func() bool {
			code, _, _ := tidegate(t, "drain", "-c", p.file)
			return code == 0
		})
	})
	if err := p.cmd.Process.Signal(syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	_ = client.Close()
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the old process ended with %v", err)
		}
	case <-time.After(await.Patience):
		t.Fatal("there is no successor")
	}
	p.plays(t)
}

// TestBackendIsLogged names the sockets' backend in the line about the start.
func TestBackendIsLogged(t *testing.T) {
	for _, want := range []netio.Backend{netio.Auto.Used(), netio.Portable} {
		p := newProcess(t, os.Args[0], write(t, ""))
		p.rewrite(t, bridgeConfig("127.0.0.1:1")+"[loop]\nbackend = '"+want.String()+"'\n")
		p.start(t)
		if line := p.await(t, "tidegate is running"); line["backend"] != want.String() {
			t.Errorf("%v, want the backend %s", line, want)
		}
	}
}
