package main

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/codec"
	"tidegate/config"
	"tidegate/filter"
	"tidegate/internal/geofile"
	"tidegate/ratelimit"
)

// putFile puts a file of a test into its folder.
func putFile(t *testing.T, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// configured is a configuration in a folder, with more at its end.
func configured(t *testing.T, dir, more string) *config.Config {
	t.Helper()
	c, _, err := config.Parse(filepath.Join(dir, "tidegate.toml"), []byte(bridge("127.0.0.1:19132")+more), traits())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const everyRule = `
[geo]
country_file = "countries.mmdb"
network_file = "networks.mmdb"

[[access]]
name = "friends"
verdict = "allow"
files = ["friends.txt"]
prefixes = ["198.51.100.7"]

[[access]]
name = "abroad"
verdict = "drop"
countries = ["XA"]

[[access]]
name = "hosting"
verdict = "observe"
networks = [64500]

[[filter]]
name = "chat"
verdict = "ban"
from = "client"
ids = ["7"]
packets = ["0x86"]
modes = ["reliable", "notify"]
min_size = "2B"
max_size = "1KiB"
rate = 4
per = "2s"
`

func TestRulesOfTheConfiguration(t *testing.T) {
	dir := t.TempDir()
	putFile(t, dir, "countries.mmdb", geofile.Countries(t, map[string]string{"203.0.113.0/24": "XA"}))
	putFile(t, dir, "networks.mmdb", geofile.Networks(t, map[string]geofile.Network{"192.0.2.0/24": {Number: 64500}}))
	putFile(t, dir, "friends.txt", []byte("203.0.113.9 # a friend\n"))
	c := configured(t, dir, everyRule)
	set, err := rules(c)
	if err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]filter.Match{
		"203.0.113.9":  {Rule: 0, Verdict: ratelimit.Pass},
		"198.51.100.7": {Rule: 0, Verdict: ratelimit.Pass},
		"203.0.113.8":  {Rule: 1, Verdict: ratelimit.Drop},
		"192.0.2.1":    {Rule: -1, Observed: 0b100},
		"2001:db8::1":  {Rule: -1},
	} {
		if got := set.Source("public", netip.MustParseAddr(from)); got != want {
			t.Errorf("%s: %+v, want %+v", from, got, want)
		}
	}
	m := codec.Message{ID: 7, HasID: true, Payload: []byte{0x86, 1}, Mode: codec.Notify}
	var memory filter.Memory
	now := time.Unix(1_700_000_000, 0)
	judge := func(d filter.Direction) filter.Match { return set.Message(now, d, "public", "raknet", &m, &memory) }
	for range 4 {
		if got := judge(filter.FromClient); got.Rule != -1 {
			t.Fatalf("within the rate: %+v", got)
		}
	}
	if got := judge(filter.FromClient); got != (filter.Match{Rule: 0, Verdict: ratelimit.BanSource}) {
		t.Errorf("beyond the rate: %+v", got)
	}
	if now = now.Add(500 * time.Millisecond); judge(filter.FromClient).Rule != -1 || judge(filter.FromUpstream).Rule != -1 {
		t.Error("half a second later, or from the server: stopped")
	}
	want := []string{"countries.mmdb", "networks.mmdb", "friends.txt"}
	for i, file := range ruleFiles(c) {
		if file != filepath.Join(dir, want[i]) {
			t.Errorf("watches %s, want %s", file, want[i])
		}
	}
}

// TestRulesNameEveryFileThatIsWrong: all at once.
func TestRulesNameEveryFileThatIsWrong(t *testing.T) {
	dir := t.TempDir()
	putFile(t, dir, "networks.mmdb", []byte("not a database"))
	putFile(t, dir, "friends.txt", []byte("203.0.113.9\nfriend\n"))
	_, err := rules(configured(t, dir, everyRule))
	for _, want := range []string{
		"geo.country_file: ", "countries.mmdb",
		"geo.network_file: " + filepath.Join(dir, "networks.mmdb") + ": not a MaxMind database",
		"access friends: " + filepath.Join(dir, "friends.txt") + `: line 2: "friend" is neither an address nor a prefix`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in\n%v", want, err)
		}
	}
}

// TestEveryDeliveryIsAMode: the configuration's words are the codecs' own.
func TestEveryDeliveryIsAMode(t *testing.T) {
	var all codec.Modes
	for _, name := range []config.Delivery{
		config.Unreliable, config.UnreliableSequenced, config.ReliableUnordered, config.ReliableOrdered,
		config.ReliableSequenced, config.Notify,
	} {
		mode := delivery(name)
		if mode == 0 || all&mode != 0 {
			t.Errorf("%s is modes %b", name, mode)
		}
		all |= mode
	}
}

// TestListsAreFollowed changes a list under a running proxy, well and badly.
func TestListsAreFollowed(t *testing.T) {
	dir := t.TempDir()
	list := putFile(t, dir, "blocked.txt", nil)
	p := startProcess(t, bridge(gameServer(t))+
		"[[access]]\nname = \"blocked\"\nverdict = \"drop\"\nfiles = ['"+list+"']\n")
	if p.pong(t) == "" {
		t.Error("no pong before the list has anyone")
	}
	putFile(t, dir, "blocked.txt", []byte("127.0.0.0/8\n"))
	p.await(t, "rules reloaded")
	if _, err := gork.PingTimeout(p.addr, 200*time.Millisecond); err == nil {
		t.Error("a pong to who is on the list")
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
