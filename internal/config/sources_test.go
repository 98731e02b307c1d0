package config

import (
	"strings"
	"testing"
)

const (
	wantSource = `want an address, for example "10.0.0.5", a prefix, for example "127.64.0.0/10", "players" or "shared"`
	wantAlone  = `want addresses or "shared", or one prefix, or "players" alone`
)

// TestSources has a row for each rule about the local addresses of sessions.
func TestSources(t *testing.T) {
	for _, row := range []struct{ name, lines, more, fault, warning string }{
		{"loopback", `sources = ["127.64.0.0/10"]`, "", "", ""},
		{"shared", `sources = ["shared", "127.0.0.1"]`, "", "", ""},
		{"transparent", `sources = ["players"]`, "", "", ""},
		{"no prefix", `sources = ["127.64.0.1/10"]`, "",
			`12:12: upstream[0].sources[0] = "127.64.0.1/10": ` + wantSource, ""},
		{"other family", `sources = ["fd00::/64"]`, "",
			`12:11: upstream[0].sources = ["fd00::/64"]: want a prefix of the servers' address family, or one ` +
				`upstream for each family: 127.0.0.1:19132 has the other family`, ""},
		{"portable", `sources = ["127.64.0.0/10"]`, "[loop]\nbackend = \"portable\"\n",
			`12:11: upstream[0].sources = ["127.64.0.0/10"]: want addresses, or loop.backend = "auto": portable sockets ` +
				`cannot choose their address`, ""},
		{"addresses too", `sources = ["127.64.0.0/10", "127.0.0.1"]`, "",
			`12:11: upstream[0].sources = ["127.64.0.0/10", "127.0.0.1"]: ` + wantAlone, ""},
		{"players and addresses", `sources = ["players", "127.0.0.1"]`, "",
			`12:11: upstream[0].sources = ["players", "127.0.0.1"]: ` + wantAlone, ""},
		{"small", `sources = ["127.64.0.0/24"]`, "", "",
			`12:11: upstream[0].sources = ["127.64.0.0/24"]: want a shorter prefix: each session at a server needs ` +
				`its own address, and limits.sessions allows more sessions than that`},
		{"shared too", `sources = ["127.64.0.0/10", "shared"]`, "",
			`12:11: upstream[0].sources = ["127.64.0.0/10", "shared"]: ` + wantAlone, ""},
		{"the former keys", "source_prefix = \"127.64.0.0/10\"\ntransparent = true\nshare_sockets = true", "",
			`12:1: upstream[0].source_prefix = "127.64.0.0/10": want this key removed: sources may be one prefix` + "\n" +
				`t.toml:13:1: upstream[0].transparent = true: want this key removed: sources = ["players"] stands for true` + "\n" +
				`t.toml:14:1: upstream[0].share_sockets = true: want this key removed: sources = ["shared"] stands for true`, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			text := string(change(t, "[[upstream]]\n", "[[upstream]]\n"+row.lines+"\n")) + row.more
			_, warnings, err := Parse("t.toml", []byte(text), known)
			check(t, err, at(row.fault))
			check(t, Faults(warnings), at(row.warning))
		})
	}
}

func at(fault string) string {
	if fault == "" {
		return ""
	}
	return "t.toml:" + fault
}

func TestPathsToServers(t *testing.T) {
	for _, row := range []struct{ name, more, want string }{
		{"good", `sources = ["10.0.0.5", "::1"]` + "\nmax_packets = 150", ""},
		{"no addresses", `sources = ["0.0.0.0", "fe80::1%eth0"]`, `
t.toml:14:12: upstream[0].sources[0] = "0.0.0.0": want an address of this machine
t.toml:14:23: upstream[0].sources[1] = "fe80::1%eth0": ` + wantSource},
		{"twice", `sources = ["10.0.0.5", "10.0.0.5"]`,
			`t.toml:14:24: upstream[0].sources[1] = "10.0.0.5": want each only once; upstream[0].sources[0] is the same`},
		{"other family", `sources = ["::1"]`,
			`t.toml:14:11: upstream[0].sources = ["::1"]: want also an address of the same family as ` +
				`upstream[0].servers[0] on line 15`},
		{"library", `server_library = "raklib"`, ""},
		{"no library", `server_library = "enet"`, `
t.toml:14:18: upstream[0].server_library = "enet": want "any", "cloudburst", "raklib", "go-raknet" or "stock"`},
		{"out of range", "max_packets = 10001\nmax_packets_per = \"2s\"", `
t.toml:14:15: upstream[0].max_packets = 10001: want 0 to 10000
t.toml:15:1: upstream[0].max_packets_per = "2s": want this key removed: max_packets counts in 10 ms`},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, _, err := Parse("t.toml", change(t, "servers = ", row.more+"\nservers = "), known)
			check(t, err, row.want)
		})
	}
	tcp := strings.Replace(strings.ReplaceAll(valid, `"raknet"`, `"riptide-2.2"`), "servers = ",
		"transport = \"tcp\"\nmax_packets = 5\nsources = [\"::1\"]\nservers = ", 1)
	_, _, err := Parse("t.toml", []byte(tcp), known)
	check(t, err, `
t.toml:15:15: upstream[0].max_packets = 5: want 0: TCP controls its own rate
t.toml:16:11: upstream[0].sources = ["::1"]: want no sources: they work only with UDP`)
}

// TestPackets asserts the bound of datagrams for each library, and that an address of each session's own needs none.
func TestPackets(t *testing.T) {
	for _, c := range []struct {
		upstream Upstream
		want     int
	}{
		{Upstream{Protocol: "bedrock", Library: AnyLibrary}, 40},
		{Upstream{Protocol: "raknet", Library: AnyLibrary}, 0},
		{Upstream{Protocol: "riptide-2.2", Library: AnyLibrary}, 0},
		{Upstream{Protocol: "bedrock", Library: RakLibLibrary}, 65},
		{Upstream{Protocol: "any", Library: CloudburstLibrary}, 40},
		{Upstream{Protocol: "bedrock", Library: GoRakNetLibrary}, 0},
		{Upstream{Protocol: "bedrock", Library: StockLibrary}, 0},
		{Upstream{Protocol: "bedrock", Library: GoRakNetLibrary, MaxPackets: 7}, 7},
		{Upstream{Protocol: "bedrock", Library: AnyLibrary, MaxPackets: 7}, 7},
		{Upstream{Protocol: "bedrock", Library: AnyLibrary, Sources: []Source{Players}}, 0},
		{Upstream{Protocol: "bedrock", Library: AnyLibrary, Sources: []Source{"127.64.0.0/10"}}, 0},
	} {
		if got := c.upstream.Packets(); got != c.want {
			t.Errorf("%+v: %d datagrams, want %d", c.upstream, got, c.want)
		}
	}
}
