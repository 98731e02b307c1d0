package setup

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/internal/config"
	"tidegate/internal/filter"
	"tidegate/internal/policy"
	"tidegate/internal/testkit/geofile"
	"tidegate/ratelimit"
)

// ruled returns a configuration with every kind of rule, with its files in a folder.
func ruled(t *testing.T, files map[string][]byte) (c *config.Config, dir string) {
	t.Helper()
	dir = t.TempDir()
	text, err := os.ReadFile("testdata/rules.toml")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "tidegate.toml")
	for file, content := range files {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return loaded(t, path), dir
}

func TestRulesOfTheConfiguration(t *testing.T) {
	c, dir := ruled(t, map[string][]byte{
		"countries.mmdb": geofile.Countries(t, map[string]string{"203.0.113.0/24": "AQ"}),
		"networks.mmdb":  geofile.Networks(t, map[string]geofile.Network{"192.0.2.0/24": {Number: 64500}}),
		"friends.txt":    []byte("203.0.113.9 # a friend\n"),
	})
	set, err := Rules(c)
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
	judge := func(d policy.Direction) filter.Match {
		said := filter.Said{From: d, Listener: "public", Protocol: "raknet", Message: &m, Head: m.Payload}
		return set.Message(now, &said, &memory)
	}
	for range 4 {
		if got := judge(policy.FromClient); got.Rule != -1 {
			t.Fatalf("within the rate: %+v", got)
		}
	}
	if got := judge(policy.FromClient); got != (filter.Match{Rule: 0, Verdict: ratelimit.BanSource}) {
		t.Errorf("beyond the rate: %+v", got)
	}
	now = now.Add(500 * time.Millisecond)
	if judge(policy.FromClient).Rule != -1 || judge(policy.FromUpstream).Rule != -1 {
		t.Error("half a second later, or from the server: stopped")
	}
	want := []string{"countries.mmdb", "networks.mmdb", "friends.txt"}
	for i, file := range RuleFiles(c) {
		if file != filepath.Join(dir, want[i]) {
			t.Errorf("watches %s, want %s", file, want[i])
		}
	}
}

// TestRulesNameEveryFileThatIsWrong checks that the error lists all unusable files at once.
func TestRulesNameEveryFileThatIsWrong(t *testing.T) {
	c, dir := ruled(t, map[string][]byte{
		"countries.mmdb": []byte("nor this"),
		"networks.mmdb":  []byte("not a database"), "friends.txt": []byte("203.0.113.9\nfriend\n"),
	})
	_, err := Rules(c)
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

// TestEveryDeliveryIsAMode checks that the configuration's words are the codecs' own.
func TestEveryDeliveryIsAMode(t *testing.T) {
	var all codec.Modes
	for _, name := range []config.Delivery{
		"unreliable", "unreliable-sequenced", "reliable", "reliable-ordered", "reliable-sequenced", "notify",
	} {
		mode := messageRule(&config.Filter{Modes: []config.Delivery{name}}).Modes
		if mode == 0 || all&mode != 0 {
			t.Errorf("%s is modes %b", name, mode)
		}
		all |= mode
	}
}
