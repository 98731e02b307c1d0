package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestUpgradeToABrokenProgram upgrades to files that are no release. The old process goes on, its players do not
// notice, and the operator sees the reason. Then a good release replaces it.
func TestUpgradeToABrokenProgram(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tidegate")
	copyOfSelf(t, path)
	p := startProgram(t, path, bridgeConfig(echoServer(t)), nil)
	talk := p.talking(t, 4)
	whole, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	for _, broken := range []struct {
		name    string
		content []byte
		mode    os.FileMode
		want    string
	}{
		{"an empty file", nil, 0o755, "exec format error"},
		{"another machine's program", append([]byte("\x7fELF\x02\x01\x01\x00"), make([]byte, 100)...), 0o755,
			"exec format error"},
		{"a file without permission", whole, 0o644, "permission denied"},
		{"an incomplete copy", whole[:len(whole)/2], 0o755, "the other process has ended: signal: "},
		{"a program that ends", []byte("#!/bin/sh\nexit 3\n"), 0o755, "the other process has ended: exit status 3"},
		{"a program that crashes", []byte("#!/bin/sh\nkill -SEGV $$\n"), 0o755,
			"the other process has ended: signal: segmentation fault"},
	} {
		must(t, os.Remove(path)) // the running file itself cannot be written
		writeProgram(t, path, broken.content)
		must(t, os.Chmod(path, broken.mode))
		code, _, stderr := separately(t, "upgrade", "-c", p.file)
		t.Logf("%s: the operator sees %s", broken.name, stderr)
		if code != 1 || !strings.Contains(stderr, "the proxy was not upgraded: ") ||
			!strings.Contains(stderr, broken.want) {
			t.Errorf("%s: code %d, says %q", broken.name, code, stderr)
		}
		p.await(t, "upgrade failed; this process continues")
		talk.goesOn(t)
	}
	must(t, os.Remove(path))
	release(t, path)
	p.isUpgraded(t, path)
	talk.goesOn(t)
	talk.end(t)
}

// TestUpgradeWhosePredecessorDiesAtOnce kills the old process before it has told its successor anything. This is a
// crash: the successor ends, too, and the service manager starts the process again.
func TestUpgradeWhosePredecessorDiesAtOnce(t *testing.T) {
	t.Parallel()
	p := startWith(t, diesAt+"=process started its successor")
	must(t, p.cmd.Process.Signal(syscall.SIGUSR2))
	text, _ := p.await(t, "tidegate failed")["error"].(string)
	if !strings.Contains(text, "take over from the predecessor: ") {
		t.Errorf("the operator sees %q", text)
	}
	_ = p.cmd.Wait()
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Errorf("the old process ended with %v", p.cmd.ProcessState)
	}
	again := newProcess(t, os.Args[0], p.file)
	again.start(t) // the predecessor's sockets are free
	again.await(t, "tidegate is running")
}
