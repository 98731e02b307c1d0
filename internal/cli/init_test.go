package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tidegate/internal/config"
	"tidegate/internal/setup"
)

// TestInitForEveryPair writes a configuration for every pair of protocols, and for relays. Each passes check and
// names its protocols. Between two dialects, check warns of undeclared messages.
func TestInitForEveryPair(t *testing.T) {
	valid := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := tidegate(t, append([]string{"init"}, args...)...)
		if code != 0 {
			t.Errorf("init %v: code %d, says %s", args, code, stderr)
			return ""
		}
		_, warnings, err := config.Parse("init.toml", []byte(stdout), setup.Traits())
		declared := func(w config.Fault) bool { return w.Key == "route[0].message" } // only the game knows its messages
		if warnings = slices.DeleteFunc(warnings, declared); err != nil || len(warnings) > 0 {
			t.Errorf("init %v: %v, warnings %v, of\n%s", args, err, warnings, stdout)
		}
		return stdout
	}
	pairs := 0
	for _, from := range config.StarterNames() {
		if !strings.HasSuffix(from, "+tcp") {
			valid("--relay", "--from", from)
		}
		for _, to := range config.StarterNames() {
			if _, err := config.NewStarter(from, to); err != nil {
				continue // the clients have no input in common
			}
			pairs++
			text := valid("--from", from, "--to", to)
			for _, name := range []string{from, to} {
				if name, _, _ = strings.Cut(name, "+"); !strings.Contains(text, `"`+name+`"`) {
					t.Errorf("%s to %s: no %s in\n%s", from, to, name, text)
				}
			}
		}
	}
	if pairs < 100 {
		t.Errorf("only %d pairs", pairs)
	}
	if text := valid("--relay", "--from", "any"); !strings.Contains(text, `mode = "relay"`) {
		t.Errorf("relay of any protocol:\n%s", text)
	}
	if text := valid("--from", "riptide-2.2", "--to", "raknet"); !strings.Contains(text, "# packet_id = 0x86") {
		t.Errorf("riptide to raknet: no packet byte in\n%s", text)
	}
	if text := valid("--from", "riptide-2.1", "--to", "minecraft"); !strings.Contains(text, `["riptide-2.2"]`) ||
		!strings.Contains(text, `protocol = "bedrock"`) {
		t.Errorf("aliases are not resolved:\n%s", text)
	}
}

func TestInitKeepsFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tidegate.toml")
	if code, stdout, stderr := tidegate(t, "init", "-o", path); code != 0 || !strings.Contains(stdout, "check -c "+path) {
		t.Fatalf("code %d, says %q %q", code, stdout, stderr)
	}
	if code, _, stderr := tidegate(t, "check", "-c", path); code != 0 {
		t.Errorf("check: code %d, says %s", code, stderr)
	}
	before, _ := os.ReadFile(path)
	code, _, stderr := tidegate(t, "init", "-o", path, "--to", "rudp")
	after, _ := os.ReadFile(path)
	if code != 1 || !strings.Contains(stderr, "exists") || string(before) != string(after) {
		t.Errorf("a second init: code %d, says %q", code, stderr)
	}
}

func TestInitRefuses(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"--from riptid-2.2", `--from "riptid-2.2": want a known protocol; did you mean "riptide-2.2"?`},
		{"--to smtp", `--to "smtp": want one of raknet, bedrock, `},
		{"--from nethernet --to raknet", "NetherNet's other side"},
		{"--listen localhost:7777", `--listen "localhost:7777": want IP:PORT, for example "127.0.0.1:7777"`},
		{"--listen 127.0.0.1:7777 --server 127.0.0.1:7777", "want a game server"},
	} {
		code, stdout, stderr := tidegate(t, append([]string{"init"}, strings.Fields(c.args)...)...)
		if code != 2 || stdout != "" || !strings.Contains(stderr, c.says) {
			t.Errorf("init %s: code %d, says %q %q; want %q", c.args, code, stdout, stderr, c.says)
		}
	}
}
