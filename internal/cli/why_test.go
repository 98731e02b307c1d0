package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/internal/admin"
	"tidegate/internal/testkit/geofile"
)

// TestWhyOfARunningProxy asks about an allowed and a denied address after one of them has tried to join.
func TestWhyOfARunningProxy(t *testing.T) {
	p := startProcess(t, bridgeConfig(gameServer(t))+`
[[access]]
name = "home"
verdict = "drop"
prefixes = ["127.0.0.0/8"]
`)
	if _, err := gork.PingTimeout(p.addr, 200*time.Millisecond); err == nil {
		t.Error("a pong for a denied address")
	}
	code, stdout, stderr := tidegate(t, "why", "-c", p.file, "127.0.0.1")
	for _, want := range []string{
		"127.0.0.1 is not allowed: rule home\n", "  rule     at public: home, drop\n",
		"  source-rule at public from 127.0.0.1:", "33 bytes, rule home (1 in a row)\n",
	} {
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("code %d, want %q in\n%s%s", code, want, stdout, stderr)
		}
	}
	_, stdout, _ = tidegate(t, "why", "--json", "-c", p.file, "203.0.113.7")
	var answer admin.Why
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || !answer.Running || answer.Decision != "allow" ||
		len(answer.Drops) != 0 {
		t.Errorf("%v: %s", err, stdout)
	}
}

// TestWhyWithoutAProxy answers from the configuration, its lists, databases and bans.
func TestWhyWithoutAProxy(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tidegate.toml")
	text := fixture(t, "rules.toml") + `
[admin]
listen = "unix:` + socketPath(t) + `"
[bans]
file = "bans.jsonl"
`
	for name, content := range map[string][]byte{
		"tidegate.toml": []byte(text), "friends.txt": []byte("203.0.113.9\n"),
		"countries.mmdb": geofile.Countries(t, map[string]string{"203.0.113.0/24": "AQ"}),
		"networks.mmdb": geofile.Networks(t,
			map[string]geofile.Network{"203.0.113.0/24": {Number: 64500, Holder: "Example"}}),
	} {
		putFile(t, dir, name, content)
	}
	if code, _, stderr := tidegate(t, "ban", "add", "-c", file, "--reason", "cheats", "192.0.2.0/24"); code != 0 {
		t.Fatal(stderr)
	}
	before, err := os.ReadFile(filepath.Join(dir, "bans.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		"203.0.113.9":      "203.0.113.9 (AQ, AS64500 Example) is allowed: rule friends\n",
		"203.0.113.8":      "is not allowed: rule abroad\n",
		"::ffff:192.0.2.1": "192.0.2.1 is not allowed: ban of 192.0.2.0/24\n",
		"2001:db8::1":      "2001:db8::1 is allowed: no ban, limit or rule applies\n",
	} {
		code, stdout, stderr := tidegate(t, "why", "-c", file, address)
		if code != 0 || !strings.Contains(stdout, want) || !strings.Contains(stdout, "No proxy is running") {
			t.Errorf("%s: code %d, want %q in\n%s%s", address, code, want, stdout, stderr)
		}
	}
	if after, err := os.ReadFile(filepath.Join(dir, "bans.jsonl")); err != nil || string(after) != string(before) {
		t.Errorf("asking has changed the bans: %v", err)
	}
}

func TestWhyMisused(t *testing.T) {
	for _, args := range [][]string{{"why"}, {"why", "example.com"}, {"why", "192.0.2.0/24"}, {"why", "::1", "::2"}} {
		if code, _, stderr := tidegate(t, args...); code != 2 {
			t.Errorf("%v: code %d, want 2: %s", args, code, stderr)
		}
	}
}
