package config

import (
	"strings"
	"testing"
)

// TestSources has a row for each rule about the addresses of sessions.
func TestSources(t *testing.T) {
	for _, row := range []struct{ name, lines, more, fault, warning string }{
		{"loopback", `source_prefix = "127.64.0.0/10"`, "", "", ""},
		{"shared", `share_sockets = true`, "", "", ""},
		{"no prefix", `source_prefix = "127.64.0.1/10"`, "",
			`12:17: upstream[0].source_prefix = "127.64.0.1/10": want a prefix, for example "127.64.0.0/10", or ""`, ""},
		{"other family", `source_prefix = "fd00::/64"`, "",
			`12:17: upstream[0].source_prefix = "fd00::/64": want a prefix of the servers' own family, or an upstream for each family: 127.0.0.1:19132 is of the other`, ""},
		{"portable", `source_prefix = "127.64.0.0/10"`, "[loop]\nbackend = \"portable\"\n",
			`12:17: upstream[0].source_prefix = "127.64.0.0/10": want "", or loop.backend = "auto": portable sockets cannot choose their address`, ""},
		{"sources too", "source_prefix = \"127.64.0.0/10\"\nsources = [\"127.0.0.1\"]", "",
			`12:17: upstream[0].source_prefix = "127.64.0.0/10": want "", or no sources: a session comes from one of them or has an address of its own`, ""},
		{"small", `source_prefix = "127.64.0.0/24"`, "", "",
			`12:17: upstream[0].source_prefix = "127.64.0.0/24": want a shorter prefix: each session at a server needs an address of it, and limits.sessions allows more`},
		{"both", "source_prefix = \"127.64.0.0/10\"\nshare_sockets = true", "", "",
			`13:17: upstream[0].share_sockets = true: want false: with source_prefix all sessions share one socket anyway`},
	} {
		t.Run(row.name, func(t *testing.T) {
			text := string(change(t, "[[upstream]]\n", "[[upstream]]\n"+row.lines+"\n")) + row.more
			_, warnings, err := Parse("t.toml", []byte(text), known)
			check(t, err, at(row.fault))
			check(t, Faults(warnings), at(row.warning))
		})
	}
	text := strings.Replace(valid, `["raknet"]`, `["riptide-2.2"]`, 1)
	text = strings.Replace(text, `protocol = "raknet"`, "protocol = \"riptide-2.2\"\ntransport = \"tcp\"\nsource_prefix = \"127.64.0.0/10\"", 1)
	_, _, err := Parse("t.toml", []byte(text), known)
	check(t, err, `t.toml:15:17: upstream[0].source_prefix = "127.64.0.0/10": want "", or transport = "udp": a TCP connection has an address and port of its own`)
}

func at(fault string) string {
	if fault == "" {
		return ""
	}
	return "t.toml:" + fault
}
