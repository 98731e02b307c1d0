package config

import (
	"strings"
	"testing"
)

// discovering returns a valid file whose upstream discovers its servers.
func discovering(lines string) []byte {
	return []byte(strings.Replace(valid, `servers = ["127.0.0.1:19132"]`, "servers = []\n"+lines, 1))
}

func TestDiscover(t *testing.T) {
	places := []string{"game.example.com:19132", "_game._udp.example.com.", "file:/etc/tidegate/servers"}
	c, _, err := Parse("t.toml", discovering(`discover = ["`+strings.Join(places,
		`", "`)+`"]`+"\nresolver = \"9.9.9.9:53\""), known)
	if err != nil {
		t.Fatal(err)
	}
	got := c.Upstreams[0].Discover
	want := []Discover{{Host: "game.example.com", Port: 19132}, {Service: places[1]}, {File: "/etc/tidegate/servers"}}
	for i, place := range places {
		if got[i] != want[i] || got[i].String() != place {
			t.Errorf("%s is %+v, written as %s", place, got[i], got[i])
		}
	}
}

func TestDiscoverFaults(t *testing.T) {
	const wanted = `want host:port, the name of SRV records ("_game._udp.example.com"), or "file:" and a path`
	for _, row := range []struct{ lines, want string }{
		{"", `t.toml:14:11: upstream[0].servers = []: want at least one ip:port, for example ["127.0.0.1:19132"]`},
		{`discover = ["game.example.com"]`, `t.toml:15:13: upstream[0].discover[0] = "game.example.com": ` + wanted},
		{`discover = ["_game.example.com"]`, `t.toml:15:13: upstream[0].discover[0] = "_game.example.com": ` + wanted},
		{`discover = ["10.0.0.1:1"]`, `t.toml:15:13: upstream[0].discover[0] = "10.0.0.1:1": ` + wanted},
		{`discover = ["file:"]`, `t.toml:15:13: upstream[0].discover[0] = "file:": ` + wanted},
		{`discover = ["a b:1"]`, `t.toml:15:13: upstream[0].discover[0] = "a b:1": ` + wanted},
		{`discover = ["a:1", "a:1"]`, `t.toml:15:20: upstream[0].discover[1] = "a:1": want each place once`},
		{"discover = [\"a:1\"]\nresolver = \"1.1.1.1:0\"",
			`t.toml:16:12: upstream[0].resolver = "1.1.1.1:0": want the address and port of a DNS server`},
	} {
		_, _, err := Parse("t.toml", discovering(row.lines), known)
		check(t, err, row.want)
	}
}
