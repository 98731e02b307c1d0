package cli

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"

	"tidegate/internal/testkit/await"
)

// TestSignalsWhileItStarts sends SIGHUP and SIGUSR2 to a process that still waits for the lock of its ban file. The
// process survives and obeys them once it runs.
func TestSignalsWhileItStarts(t *testing.T) {
	for signal, message := range map[syscall.Signal]string{
		syscall.SIGHUP:  "configuration reloaded",
		syscall.SIGUSR2: "handed over; this process ends",
	} {
		t.Run(unix.SignalName(signal), func(t *testing.T) {
			dir := t.TempDir()
			p := newProcess(t, os.Args[0], filepath.Join(dir, "tidegate.toml"))
			must(t, os.WriteFile(p.file, []byte(p.reachable(bridgeConfig("127.0.0.1:1"))), 0o600))
			lock := flock.New(filepath.Join(dir, "bans.jsonl.lock"))
			must(t, lock.Lock())
			watch, err := unix.InotifyInit1(0)
			must(t, err)
			defer func() { _ = unix.Close(watch) }()
			_, err = unix.InotifyAddWatch(watch, lock.Path(), unix.IN_OPEN)
			must(t, err)
			p.start(t)
			_, err = unix.Read(watch, make([]byte, unix.SizeofInotifyEvent+unix.NAME_MAX+1)) // waits until it tries the lock
			must(t, err)
			must(t, p.cmd.Process.Signal(signal))
			must(t, lock.Unlock())
			if successor, ok := p.await(t, message)["successor"].(float64); ok {
				must(t, syscall.Kill(int(successor), syscall.SIGKILL))
				return
			}
			must(t, p.cmd.Process.Signal(syscall.SIGTERM))
			must(t, p.cmd.Wait())
		})
	}
}

// TestSignalsWhileItDrains sends signals to a process that waits for its clients. It does not end.
func TestSignalsWhileItDrains(t *testing.T) {
	p := startProcess(t, bridgeConfig(echoServer(t))+"[limits]\ndrain_grace = \"1m\"\n")
	client := p.plays(t)
	must(t, p.cmd.Process.Signal(syscall.SIGTERM))
	await.Until(t, "draining", func() bool {
		code, _, _ := tidegate(t, "health", "--ready", "-c", p.file)
		return code == 1
	})
	for _, signal := range []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR2, syscall.SIGPIPE} {
		must(t, p.cmd.Process.Signal(signal))
	}
	for range 3 {
		_, err := client.Write([]byte{0xfe, 1})
		must(t, err)
		_, err = client.ReadPacket()
		must(t, err)
	}
	_ = client.Close()
	must(t, p.cmd.Wait())
}
