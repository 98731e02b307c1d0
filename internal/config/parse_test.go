package config

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"tidegate/codec"
	"tidegate/internal/policy"
)

// known holds example protocols. "lossy" guarantees nothing, "deaf" cannot be used by a listener, and "mute" cannot
// be used by an upstream.
var known = map[string]Traits{
	"raknet":  {Ordered: true, Sequenced: true, Reliable: true, Server: true, Client: true, Pings: true},
	"bedrock": {Ordered: true, Sequenced: true, Reliable: true, Server: true, Client: true, Pings: true},
	"riptide-2.0": {Reliable: true, IDs: true, Stream: true, Server: true, Client: true, Types: noVarint,
		Openers: codec.ByteSetOf(3)},
	"riptide-2.2": {Reliable: true, IDs: true, Stream: true, Server: true, Client: true, Reports: true, Types: anyType},
	"rudp":        {Sequenced: true, Server: true, Client: true, Reports: true, Joins: true},
	"rtype":       {Closed: true, Server: true, Client: true, Openers: codec.ByteSetOf(2, 3, 255)},
	"lossy":       {Server: true, Client: true},
	"deaf":        {Ordered: true, Reliable: true, Client: true},
	"mute":        {Sequenced: true, Server: true},
	"any":         {Opaque: true, Server: true, Client: true},
}

// anyType and noVarint stand for two dialects, one of which lacks a type.
func anyType(name string) (want string) {
	if name != "int" && name != "varulong" {
		return "int or varulong"
	}
	return ""
}

func noVarint(name string) (want string) {
	if name != "int" {
		return "int"
	}
	return ""
}

// valid is a small file. Tests of single rules change one place in it.
const valid = `[[listener]]
name = "public"
address = "0.0.0.0:7777"
protocols = ["raknet"]
route = "arena"

[[route]]
name = "arena"
upstream = "arena"

[[upstream]]
name = "arena"
protocol = "raknet"
servers = ["127.0.0.1:19132"]
`

// check compares the text of an error with want, exactly. In want, a line with four spaces at its start continues the
// line before.
func check(t *testing.T, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if want = strings.ReplaceAll(strings.TrimSpace(want), "\n    ", " "); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestValidFileHasNoFaults(t *testing.T) {
	c, warnings, err := Parse("tidegate.toml", []byte(valid), known)
	if err != nil || len(warnings) != 0 {
		t.Fatalf("faults %v, warnings %v", err, warnings)
	}
	if got := c.Listeners[0].Address.String(); got != "0.0.0.0:7777" {
		t.Errorf("address = %s", got)
	}
	if got := c.Routes[0]; !got.Admit.Is(policy.AdmitAuto) || got.PacketID != 0x86 || got.Queue != 16*MiB {
		t.Errorf("route without its defaults: %+v", got)
	}
	if got := c.Upstreams[0]; !got.Balance.Is(policy.LeastSessions) {
		t.Errorf("upstream without its defaults: %+v", got)
	}
}

func TestAllFaultsOfAFileAtOnce(t *testing.T) {
	const text = `[limits]
sessions = "many"
idel_timeout = "30s"

[[listener]]
name = "a"
address = "7777"
protocols = ["riptide-2.2"]
route = "west"

[[listener]]
name = "b"
address = "0.0.0.0:7778"
protocols = ["riptide-2.2"]
route = "west"

[[listener]]
name = "c"
address = "127.0.0.1:7778"
protocols = ["riptide-2.2"]
route = "east"

[[route]]
name = "west"
upstream = "arena"

[[route]]
name = "east"

[[upstream]]
name = "arena"
protocol = "raknet"
servers = ["127.0.0.1:19132"]
`
	_, _, err := Parse("tidegate.toml", []byte(text), known)
	check(t, err, `
tidegate.toml:2:12: limits.sessions = "many": want a whole number
tidegate.toml:3:1: limits.idel_timeout = "30s": want a known key; did you mean "idle_timeout"?
tidegate.toml:7:11: listener[0].address = "7777": want ip:port, for example "0.0.0.0:7777"
tidegate.toml:19:11: listener[2].address = "127.0.0.1:7778": want an address and port of its own; listener[1] on
    line 11 takes 0.0.0.0:7778
tidegate.toml:23:3: route[0].ordered: want "fast" (sent at once: rate is kept, order only while the network keeps
    it), "strict" (one message per round trip and channel: order is kept, rate is not) or allow_lossy = true:
    riptide-2.2 does not keep the order that raknet promises
tidegate.toml:27:3: route[1].upstream: want the name of one of the [[upstream]] tables: "arena"
`)
	var faults Faults
	if !errors.As(err, &faults) || len(faults) != 6 {
		t.Fatalf("%d faults", len(faults))
	}
	var first Fault
	if !errors.As(err, &first) || first != faults[0] {
		t.Errorf("first fault %+v", first)
	}
}

func TestSyntaxErrorStandsAlone(t *testing.T) {
	for _, row := range []struct{ name, text, want string }{
		{"no value", "a = 1\nb = \nc = [", "t.toml:2:5: want valid TOML: unexpected character U+000A at start of value"},
		{"key twice", "[log]\nlevel = \"info\"\nlevel = \"warn\"",
			"t.toml:3:1: want valid TOML: key level is already defined on line 2"},
		{"dotted key twice", "[log]\nlevel = \"info\"\n[admin]\nlisten = \"off\"\n[log]\nformat = \"json\"",
			"t.toml:5:2: want valid TOML: table log already exists on line 1"},
		{"a quote from a chat", "[log]\nlevel = “info”", `t.toml:2:9: want straight quotes (") in place of “`},
		{"too long", strings.Repeat("#", int(maxFile)+1), "t.toml:1:1: want a file of at most 1MiB"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, _, err := Parse("t.toml", []byte(row.text), known)
			check(t, err, row.want)
		})
	}
}

func TestFileWithoutListener(t *testing.T) {
	_, _, err := Parse("t.toml", nil, known)
	check(t, err, "t.toml:1:1: listener: want at least one [[listener]] table, with a [[route]] and an [[upstream]]")
}

func TestLargestFileIsRead(t *testing.T) {
	text := valid + strings.Repeat("#", int(maxFile)-len(valid))
	if _, _, err := Parse("t.toml", []byte(text), known); err != nil {
		t.Error(err)
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tidegate.toml")
	if err := os.WriteFile(path, []byte(valid+"x = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _, err := Load(path, known)
	check(t, err, path+":15:1: upstream[0].x = 1: want a known key: name, protocol, transport, servers, discover, "+
		"resolver, kubernetes, agones, balance, server_library, sources, max_packets, "+
		"health, health_interval, proxy_protocol, nat, identity_key, cookie_mode, cookie_secret, raknet, "+
		"riptide, rudp, enet or rtype")
	if c != nil {
		t.Error("a faulty file gave a configuration")
	}

	if err := os.WriteFile(path, []byte(valid+strings.Repeat("#", int(maxFile))), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err = Load(path, known)
	check(t, err, path+":1:1: want a file of at most 1MiB")

	if _, _, err := Load(path+".none", known); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

func TestFind(t *testing.T) {
	here := filepath.Join(t.TempDir(), "tidegate.toml")
	system := filepath.Join(t.TempDir(), "tidegate.toml")
	_, err := find(here, system)
	check(t, err, "no configuration file: neither "+here+" nor "+system+" exists; make one with tidegate init")

	for _, path := range []string{system, here} { // the second one has priority
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := find(here, system); err != nil || got != path {
			t.Errorf("found %q, %v; want %q", got, err, path)
		}
	}
	if _, err := find(filepath.Join(here, "below-a-file")); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("a path that cannot be looked at: %v", err)
	}
}

func TestValidateAfterChange(t *testing.T) {
	c, _, err := Parse("tidegate.toml", []byte(valid), known)
	if err != nil {
		t.Fatal(err)
	}
	c.Limits.Sessions = 0
	c.Routes[0].Upstream = "moon"
	warnings, err := c.Validate(known)
	if len(warnings) > 0 {
		t.Errorf("warnings that follow from faults: %v", warnings)
	}
	check(t, err, `
tidegate.toml:1:1: limits.sessions: want 1 to 1000000
tidegate.toml:9:12: route[0].upstream = "moon": want the name of one of the [[upstream]] tables: "arena"
`)
}

func TestValidateWithoutFile(t *testing.T) {
	c := Default()
	_, err := c.Validate(known)
	check(t, err, "listener: want at least one [[listener]] table, with a [[route]] and an [[upstream]]")

	at := AddressOf(netip.MustParseAddrPort("127.0.0.1:7777"))
	c.Listeners = []Listener{
		{Name: "a", Address: at, Protocols: []string{"raknet"}, Route: "a"},
		{Name: "b", Address: at, Protocols: []string{"raknet"}, Route: "b"},
	}
	c.Routes = []Route{{Name: "a", Upstream: "a", PacketID: 28, Queue: MiB, HoldTime: seconds(1)}}
	var u Upstream
	setDefaults(reflect.ValueOf(&u).Elem())
	u.Transport, u.Name, u.Protocol, u.Servers = "", "a", "raknet", []Server{ServerAt(at.AddrPort)}
	c.Upstreams = []Upstream{u}
	_, err = c.Validate(known)
	check(t, err, `
listener[1].address = "127.0.0.1:7777": want an address and port of its own; listener[0] takes 127.0.0.1:7777
listener[1].route = "b": want the name of one of the [[route]] tables: "a"
upstream[0].servers[0] = "127.0.0.1:7777": want a game server; this is listener[0] of Tidegate itself
`)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(valid))
	f.Add([]byte("listener = [{name.x = [[1], {}], address = {a = 1979-05-27}}, 3]\nroute.\"a b\".c = '''\n'''\n"))
	f.Add(dialects("[[route.message]]\nid = 7\ntypes = [\"int\", \"x\"]\n"))
	f.Add([]byte("rtype.components = {a = 1, \"\" = 2, b = []}\nroute = [{message = [{id = -3, types = [[]]}]}]\n"))
	f.Add([]byte("[a.b.c.d.e]\nf.g = {h = {i = {j = [{}]}}}\n[[a.b.x]]\n[[a.b.x]]\n[a.b.x.y]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, _, err := Parse("f", text, known)
		if (c == nil) == (err == nil) {
			t.Fatalf("configuration %v, error %v", c, err)
		}
		var faults Faults
		if err != nil && !errors.As(err, &faults) {
			t.Fatalf("%T is no Faults", err)
		}
		lines := strings.Split(string(text), "\n")
		for _, fault := range faults {
			if fault.Line < 1 || fault.Line > len(lines) || fault.Column < 1 || fault.Column > len(lines[fault.Line-1])+1 {
				t.Errorf("outside the file: %v", fault)
			}
		}
	})
}

// TestByteOrderMark checks that a byte order mark is ignored. Some editors write one and do not show it.
func TestByteOrderMark(t *testing.T) {
	if _, _, err := Parse("t.toml", []byte("\xef\xbb\xbf"+valid), known); err != nil {
		t.Error(err)
	}
	_, _, err := Parse("t.toml", []byte("\xef\xbb\xbfsessions = 1"), known)
	if err == nil || !strings.HasPrefix(err.Error(), "t.toml:1:1: sessions = 1") {
		t.Errorf("a fault behind the mark: %v", err)
	}
}

// TestEnvironment names the default file and the level of the log by variables.
func TestEnvironment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "game.toml")
	if err := os.WriteFile(path, []byte(valid), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TIDEGATE_CONFIG", path)
	t.Setenv("TIDEGATE_LOG_LEVEL", "debug")
	found, err := Find()
	if err != nil || found != path {
		t.Fatalf("found %q: %v, want %q", found, err, path)
	}
	if c, _, err := Load(found, known); err != nil || c.Log.Level != Debug {
		t.Errorf("%v, want the level of the environment", err)
	}
	t.Setenv("TIDEGATE_LOG_LEVEL", "loud")
	want := `TIDEGATE_LOG_LEVEL = "loud": want "debug", "info", "warn" or "error"`
	if _, _, err := Load(found, known); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
