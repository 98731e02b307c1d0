package cli

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"tidegate/internal/testkit/await"
)

// TestSignalsWhileItStarts sends SIGHUP and SIGUSR2 to a process that still reads its configuration. The process
// survives and obeys them once it runs.
func TestSignalsWhileItStarts(t *testing.T) {
	for signal, message := range map[syscall.Signal]string{
		syscall.SIGHUP:  "configuration reloaded",
		syscall.SIGUSR2: "handed over; this process ends",
	} {
		t.Run(unix.SignalName(signal), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tidegate.toml")
			must(t, unix.Mkfifo(path, 0o600))
			p := newProcess(t, os.Args[0], path)
			p.start(t)
			file, err := os.OpenFile(path, os.O_WRONLY, 0) // waits until the process reads
			must(t, err)
			must(t, p.cmd.Process.Signal(signal))
			text := p.reachable(bridgeConfig("127.0.0.1:1"))
			must(t, os.Remove(path))
			must(t, os.WriteFile(path, []byte(text), 0o600)) // for later reads
			_, err = file.WriteString(text)
			must(t, err)
			must(t, file.Close())
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
