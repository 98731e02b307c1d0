package config

import (
	"strings"
	"testing"
)

// TestServerLists has a row for each rule about server lists: the valid file with more lines in the route.
func TestServerLists(t *testing.T) {
	long := strings.Repeat("n", maxPongName)
	for _, row := range []struct{ name, lines, want string }{
		{"all at their least", "pong = \"upstream\"\npong_name = \"Tide\"", ""},
		{"all at their most", `pong_name = "` + long + `"`, ""},
		{"unknown source", `pong = "both"`, `10:8: route[0].pong = "both": want "auto", "configured" or "upstream"`},
		{"long name", `pong_name = "` + long + `n"`,
			`10:13: route[0].pong_name = "` + long[:maxRendered] + `...": want at most 100 bytes of text without semicolons`},
		{"name of two fields", `pong_name = "a;b"`,
			`10:13: route[0].pong_name = "a;b": want at most 100 bytes of text without semicolons`},
		{"how often", `pong_refresh = "1s"`,
			`10:1: route[0].pong_refresh = "1s": want this key removed: servers are asked each 2 s`},
	} {
		t.Run(row.name, func(t *testing.T) {
			want := row.want
			if want != "" {
				want = "t.toml:" + want
			}
			_, warnings, err := Parse("t.toml", change(t, `upstream = "arena"`, "upstream = \"arena\"\n"+row.lines), known)
			check(t, err, want)
			check(t, Faults(warnings), "")
		})
	}
}

func TestServerListsWithoutTexts(t *testing.T) {
	listed := strings.Replace(valid, `upstream = "arena"`,
		"upstream = \"arena\"\nordered = \"fast\"\npong = \"upstream\"", 1)
	_, _, err := Parse("t.toml", []byte(strings.Replace(listed, `protocol = "raknet"`, `protocol = "riptide-2.0"`, 1)),
		known)
	check(t, err, `t.toml:11:8: route[0].pong = "upstream": want "configured": riptide-2.0 servers have no text for `+
		`server lists`)

	_, warnings, err := Parse("t.toml", []byte(strings.Replace(listed, `["raknet"]`, `["riptide-2.0"]`, 1)), known)
	check(t, err, "")
	check(t, Faults(warnings),
		`t.toml:11:8: route[0].pong = "upstream": want "configured": no protocol of the route's listeners has server lists`)
}

// TestAsksServers checks the default: a relay shows the texts of its servers, and a terminating route shows the
// configured text.
func TestAsksServers(t *testing.T) {
	for _, row := range []struct {
		lines string
		want  bool
	}{
		{"", false}, {`pong = "auto"`, false}, {`pong = "configured"`, false}, {`pong = "upstream"`, true},
		{`mode = "relay"`, true}, {"mode = \"relay\"\npong = \"upstream\"",
			true}, {"mode = \"relay\"\npong = \"configured\"", false},
	} {
		c, _, err := Parse("t.toml", change(t, `upstream = "arena"`, "upstream = \"arena\"\n"+row.lines), known)
		check(t, err, "")
		if got := c.Routes[0].AsksServers(); got != row.want {
			t.Errorf("%q: asks its servers: %v, want %v", row.lines, got, row.want)
		}
	}
}
