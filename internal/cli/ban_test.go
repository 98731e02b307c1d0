package cli

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tidegate/internal/banfile"
)

// banned returns the networks of a ban file.
func banned(t *testing.T, path string) []string {
	t.Helper()
	bans, err := banfile.File(path).Read()
	if err != nil {
		t.Fatal(err)
	}
	var networks []string
	for _, b := range bans {
		networks = append(networks, b.Prefix.String())
	}
	return networks
}

// TestBanCommands imposes, lists, imports and lifts bans. The configuration beside the ban file has other faults.
func TestBanCommands(t *testing.T) {
	path := write(t, "[bans]\nfile = \"shut out.jsonl\"\n[nonsense]\n")
	list := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(list, []byte("203.0.113.0/24 # a network\n\n2001:db8::1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string // regular expression for the output
	}{
		{"list", 0, `^NETWORK +LEFT +BY +REASON\n$`},
		{"add --for 24h --reason cheating --author ann 192.0.2.7", 0, `^192\.0\.2\.7/32 banned until 20.*\n$`},
		{"add --json 198.51.100.0/24", 0, `^{"prefix":"198.51.100.0/24","author":".+","since":".+"}\n$`},
		{"import --reason abuse " + list, 0, `^203\.0\.113\.0/24, 2001:db8::1/128 banned forever\n$`},
		{"add --reason " + strings.Repeat("x", 1025) + " 192.0.2.7", 2, "--reason has 1025 bytes: want at most 1024"},
		{"list", 0,
			`192\.0\.2\.7/32 +2[34]h.* +ann +cheating\n198\.51\.100\.0/24 +forever +.+\n203\.0\.113\.0/24 +forever ` +
				`.*abuse\n2001:db8::1/128 `},
		{"del 198.51.100.0/24 192.0.2.1", 1, "192.0.2.1/32 is not banned"},
		{"add 192.0.2.7/24", 2, "did you mean 192.0.2.0/24"},
		{"add --for 0s 192.0.2.7", 2, "--for 0s: want a duration"},
		{"add", 2, "ban add: want at least one PREFIX"},
		{"import", 2, "want one FILE"},
		{"import nowhere", 1, "no such file"},
		{"fly", 2, `unknown command "ban fly"`},
	} {
		args := strings.Fields(c.args)
		if c.args != "fly" {
			args = append([]string{args[0], "-c", path}, args[1:]...)
		}
		code, stdout, stderr := tidegate(t, append([]string{"ban"}, args...)...)
		if code != c.code || !regexp.MustCompile(c.want).MatchString(stdout+stderr) {
			t.Errorf("ban %s: code %d, printed\n%s%swant code %d and %s", c.args, code, stdout, stderr, c.code, c.want)
		}
	}
	got := strings.Join(banned(t, filepath.Join(filepath.Dir(path), "shut out.jsonl")), " ")
	if want := "192.0.2.7/32 203.0.113.0/24 2001:db8::1/128"; got != want {
		t.Errorf("banned are %s, want %s", got, want)
	}
}

func TestBanListJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bans")
	tidegate(t, "ban", "add", "--file", file, "--reason", "a\x1b[2J", "192.0.2.7")
	_, plain, _ := tidegate(t, "ban", "list", "--file", file)
	_, stdout, _ := tidegate(t, "ban", "list", "--file", file, "--json")
	var r banfile.Record
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || r.Reason != "a\x1b[2J" ||
		netip.MustParsePrefix(r.Prefix).Bits() != 32 {
		t.Errorf("%v: %s", err, stdout)
	}
	if strings.Contains(plain, "\x1b") {
		t.Errorf("printed to a terminal: %q", plain)
	}
}

func TestNoFileOfBans(t *testing.T) {
	path := write(t, "[bans]\nfile = \"\"\n")
	if code, _, stderr := tidegate(t, "ban", "list", "-c", path); code != 1 ||
		!strings.Contains(stderr, `bans.file = ""`) {
		t.Errorf("code %d: %s", code, stderr)
	}
}

// TestBanRemotely bans in a running proxy that only the environment names, without any file.
func TestBanRemotely(t *testing.T) {
	p := startProcess(t, bridgeConfig("127.0.0.1:1")+"[bans]\nfile = \"\"\n")
	t.Setenv(adminVariable, "unix:"+p.admin)
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"ban add 192.0.2.7 10.0.0.0/8 --for 7d --reason cheating --author ann", 0, "192.0.2.7/32, 10.0.0.0/8 banned until"},
		{"ban list --json", 0, `{"prefix":"192.0.2.7/32","reason":"cheating","author":"ann","since":"`},
		{"why 192.0.2.7", 0, "banned   192.0.2.7/32 by ann"},
		{"ban del 192.0.2.7 192.0.2.8", 1, "192.0.2.8/32 is not banned"},
		{"ban list", 0, "10.0.0.0/8"},
		{"ban list --admin 127.0.0.1:1 --file x", 2, "want one of them"},
	} {
		code, stdout, stderr := tidegate(t, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("%s: code %d, says %s%s; want %d and %q", c.args, code, stdout, stderr, c.code, c.want)
		}
	}
	t.Setenv(adminVariable, "127.0.0.1:1")
	if code, _, stderr := tidegate(t, "why", "192.0.2.7"); code != 1 || !strings.Contains(stderr, "127.0.0.1:1") {
		t.Errorf("why of an absent proxy: code %d, says %s", code, stderr)
	}
}
