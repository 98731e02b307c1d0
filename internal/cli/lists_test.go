package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"
)

// putFile writes a test's file into its folder.
func putFile(t *testing.T, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestListsAreFollowed changes a list of a running proxy, first correctly and then with a fault.
func TestListsAreFollowed(t *testing.T) {
	dir := t.TempDir()
	list := putFile(t, dir, "blocked.txt", nil)
	p := startProcess(t, bridgeConfig(gameServer(t))+
		"[[access]]\nname = \"blocked\"\nverdict = \"drop\"\nfiles = ['"+list+"']\n")
	if p.pong(t) == "" {
		t.Error("no pong before the list has anyone")
	}
	putFile(t, dir, "blocked.txt", []byte("127.0.0.0/8\n"))
	p.await(t, "rules reloaded")
	if _, err := gork.PingTimeout(p.addr, 200*time.Millisecond); err == nil {
		t.Error("a pong for an address on the list")
	}
	if line := p.await(t, "dropped"); line["reason"] != "source-rule" || line["error"] != "rule blocked" {
		t.Errorf("dropped: %v", line)
	}
	putFile(t, dir, "blocked.txt", []byte("127.0.0.0/8\noops\n"))
	p.await(t, "rules not reloaded; the old ones stay in force")
	putFile(t, dir, "blocked.txt", []byte("# nobody\n"))
	p.await(t, "rules reloaded")
	if p.pong(t) == "" {
		t.Error("no pong after the list was emptied")
	}
}
