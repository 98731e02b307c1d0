package cli

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"tidegate/internal/daemon"
)

// release writes a program that is this test's, and records beside its path that it ran.
func release(t *testing.T, path string) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	script := "#!/bin/sh\n: > \"$0.ran\"\nexec " + self + " \"$@\"\n"
	writeProgram(t, path, []byte(script))
}

// writeProgram writes a program, while no other test starts a process. The child would have the open file for a moment,
// and the kernel does not run a program that is written.
func writeProgram(t *testing.T, path string, content []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	must(t, os.WriteFile(path, content, 0o755))
}

// copyOfSelf copies this test's program.
func copyOfSelf(t *testing.T, path string) {
	t.Helper()
	content, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	writeProgram(t, path, content)
}

// isUpgraded upgrades a process. The successor must be the program at a path.
func (p *process) isUpgraded(t *testing.T, path string) {
	t.Helper()
	must(t, p.cmd.Process.Signal(syscall.SIGUSR2))
	line := p.await(t, "handed over; this process ends")
	successor := int(line["successor"].(float64))
	t.Cleanup(func() { _ = syscall.Kill(successor, syscall.SIGKILL) })
	if _, err := os.Stat(path + ".ran"); err != nil {
		t.Errorf("the successor is another program: %v", err)
	}
	if line["program"] != path || line["successor_version"] != daemon.Version() {
		t.Errorf("the log says %v", line)
	}
}

// TestUpgradeRunsTheFileAtThePath installs the next release in all usual ways. The successor is that release, and the
// log names it.
func TestUpgradeRunsTheFileAtThePath(t *testing.T) {
	for name, install := range map[string]func(t *testing.T, path string){
		"moved aside": func(t *testing.T, path string) {
			must(t, os.Rename(path, path+".bak"))
			release(t, path)
		},
		"renamed over": func(t *testing.T, path string) {
			release(t, path+".fresh")
			must(t, os.Rename(path+".fresh", path))
		},
		"removed and written": func(t *testing.T, path string) {
			must(t, os.Remove(path))
			release(t, path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tidegate")
			copyOfSelf(t, path)
			p := startProgram(t, path, bridgeConfig(echoServer(t)), nil)
			install(t, path)
			p.isUpgraded(t, path)
		})
	}
	t.Run("linked anew", func(t *testing.T) {
		dir := t.TempDir()
		link := filepath.Join(dir, "tidegate")
		copyOfSelf(t, filepath.Join(dir, "first"))
		must(t, os.Symlink("first", link))
		p := startProgram(t, link, bridgeConfig(echoServer(t)), nil)
		release(t, filepath.Join(dir, "second"))
		must(t, os.Remove(link))
		must(t, os.Symlink("second", link))
		p.isUpgraded(t, link)
	})
	t.Run("gone", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tidegate")
		copyOfSelf(t, path)
		p := startProgram(t, path, bridgeConfig(echoServer(t)), nil)
		must(t, os.Rename(path, path+".bak"))
		must(t, p.cmd.Process.Signal(syscall.SIGUSR2))
		if got := p.await(t, "upgrade failed; this process continues")["program"]; got != path {
			t.Errorf("the program is %v, want %s", got, path)
		}
		_ = p.plays(t)
	})
}
