package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	gork "github.com/sandertv/go-raknet"

	"tidegate/internal/testkit/await"
)

// rewrite replaces the process's configuration in one step, as editors do.
func (p *process) rewrite(t *testing.T, text string) {
	t.Helper()
	fresh := filepath.Join(t.TempDir(), "fresh")
	if err := os.WriteFile(fresh, []byte(p.reachable(text)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(fresh, p.file); err != nil {
		t.Fatal(err)
	}
}

func (p *process) pong(t *testing.T) string {
	t.Helper()
	pong, err := gork.PingTimeout(p.addr, await.Patience)
	if err != nil {
		t.Fatal(err)
	}
	return string(pong)
}

// TestReload changes the file of a running proxy, first correctly and then with a fault, with SIGHUP and with --watch.
func TestReload(t *testing.T) {
	for _, way := range []struct {
		name  string
		flags []string
		tell  func(p *process) error
	}{
		{"signal", nil, func(p *process) error { return p.cmd.Process.Signal(syscall.SIGHUP) }},
		{"watch", []string{"--watch"}, func(*process) error { return nil }},
	} {
		t.Run(way.name, func(t *testing.T) {
			good := bridgeConfig(gameServer(t))
			p := startProcess(t, good, way.flags...)
			client, err := gork.DialTimeout(p.addr, await.Patience)
			if err != nil {
				t.Fatal(err)
			}
			p.await(t, "session established")
			for _, step := range []struct{ text, says, pong string }{
				{strings.Replace(good, "A test", "Another", 1) + "[loop]\ncount = 2\n", "configuration reloaded", "MCPE;Another;"},
				{strings.Replace(good, `"fast"`, `"soon"`, 1), "configuration not reloaded; the old one stays in force",
					"MCPE;Another;"},
				{good, "configuration reloaded", "MCPE;A test;"},
			} {
				p.rewrite(t, step.text)
				if err := way.tell(p); err != nil {
					t.Fatal(err)
				}
				line := p.await(t, step.says)
				if waits, _ := line["needs_restart"].([]any); (len(waits) == 1) != strings.Contains(step.text, "[loop]") {
					t.Errorf("waiting for a restart: %v", waits)
				}
				if got := p.pong(t); got != step.pong {
					t.Errorf("pong %q, want %q", got, step.pong)
				}
			}
			if _, err := client.Write([]byte{0xfe}); err != nil || client.Context().Err() != nil {
				t.Errorf("the client is gone: %v", err)
			}
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
			p.await(t, "tidegate stopped")
		})
	}
}
