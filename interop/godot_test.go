//go:build interop

package interop_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestGodotTutorial plays docs/tutorials/godot-enet.md with Godot: the project and the configuration are those of the
// page, at other ports.
func TestGodotTutorial(t *testing.T) {
	t.Parallel()
	dir := debian.dir(t)
	server, project := freePort(t), t.TempDir()
	env, line := debian.line(dir)
	line = append(slices.DeleteFunc(line, func(word string) bool { return word == "-s" }), "--path", project)
	game := func(client string) {
		t.Helper()
		names, err := filepath.Glob("../examples/godot-enet/*")
		if err != nil || len(names) == 0 {
			t.Fatal(names, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			text = []byte(strings.NewReplacer("7778", server, "7777", client).Replace(string(text)))
			if err := os.WriteFile(filepath.Join(project, filepath.Base(name)), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	game("0")
	ready := make(chan struct{}, 1)
	start(t, env, func(line []byte) {
		if strings.TrimSpace(string(line)) == "ready" {
			ready <- struct{}{}
		}
	}, append(slices.Clone(line), "--server")...)
	select {
	case <-ready:
	case <-time.After(3 * patience):
		t.Fatal("the server is not ready")
	}
	text, err := os.ReadFile("../examples/godot-enet.toml")
	if err != nil {
		t.Fatal(err)
	}
	configuration := strings.NewReplacer("0.0.0.0:7777", "127.0.0.1:0", "7778", server).Replace(string(text))
	p := runTidegate(t, configuration+"[log]\nformat = \"json\"\n[admin]\nlisten = \"off\"\n[bans]\nfile = \"\"\n", 1)
	game(p.ports[udp])
	welcomed := make(chan struct{}, 1)
	player := start(t, env, func(line []byte) {
		if strings.TrimSpace(string(line)) == "welcome, Ada" {
			welcomed <- struct{}{}
		}
	}, line...)
	if err := player.wait(); err != nil || len(welcomed) != 1 {
		t.Errorf("the player ends with %v, %d answers", err, len(welcomed))
	}
}
