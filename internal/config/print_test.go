package config

import (
	"reflect"
	"strings"
	"testing"

	"tidegate/internal/protocols"
)

// TestTOMLIsRead checks that the printed manual, with all defaults, means the same configuration.
func TestTOMLIsRead(t *testing.T) {
	text := readFile(t, manual)
	want := loaded(t, manual, commented.ReplaceAllString(text, "$1"))
	want.Options["raknet"].(*protocols.RakNetSettings).Pong = "quoted \"\\\t\x7f räuberisch <&>"
	want.Options["rtype"].(*protocols.RTypeSettings).Components = map[string]int{"a key": 3, "b": 4}
	printed := want.TOML()
	if got := loaded(t, "printed.toml", printed); !reflect.DeepEqual(got, want) {
		t.Errorf("printed\n%s\nit means\n%+v\nwant\n%+v", printed, got, want)
	}
}

// TestTOMLOfWhatTheManualLacks checks port ranges, and servers that are tables.
func TestTOMLOfWhatTheManualLacks(t *testing.T) {
	const text = `
[[listener]]
name = "ports"
address = "0.0.0.0:7000-7009"
protocols = ["riptide-2.2"]
route = "arena"
[[route]]
name = "arena"
upstream = "arena"
ordered = "fast"
[[upstream]]
name = "arena"
protocol = "raknet"
servers = [{address = "10.0.0.5:8000-8009", weight = 3}, "10.0.0.6:8000-8009"]
`
	want := loaded(t, "t.toml", text)
	if got := loaded(t, "printed.toml", want.TOML()); !reflect.DeepEqual(got, want) {
		t.Errorf("printed\n%s\nit means\n%+v\nwant\n%+v", want.TOML(), got, want)
	}
}

// TestChanged prints the manual without its defaults. The rest means the same configuration, and has no default.
func TestChanged(t *testing.T) {
	want := loaded(t, manual, readFile(t, manual))
	want.Limits.Sessions = 7
	changed := Changed(want.TOML(), want.Origins())
	if got := loaded(t, "changed.toml", changed); !reflect.DeepEqual(got, want) {
		t.Errorf("printed\n%s\nit means\n%+v\nwant\n%+v", changed, got, want)
	}
	const most = 20 // lines, of about 200
	if n := strings.Count(changed, "\n"); n > most || !strings.Contains(changed, "[limits]\nsessions = 7\n") {
		t.Errorf("%d lines, want at most %d:\n%s", n, most, changed)
	}
	if got := Changed(Default().TOML(), nil); got != "" {
		t.Errorf("of the defaults these differ:\n%s", got)
	}
}

func TestTOMLHidesSecrets(t *testing.T) {
	c := Default()
	c.Admin.Token = "0123456789abcdef"
	c.Options["raknet"].(*protocols.RakNetSettings).CookieSecret = "00ff"
	text := c.TOML()
	if strings.Contains(text, "0123456789") || strings.Contains(text, "00ff") ||
		strings.Count(text, "(hidden)") != 2 {
		t.Errorf("printed\n%s", text)
	}
}
