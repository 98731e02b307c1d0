package config

import (
	"strings"
	"testing"
)

func TestPathsToServers(t *testing.T) {
	for _, row := range []struct{ name, more, want string }{
		{"good", `sources = ["10.0.0.5", "::1"]` + "\nmax_packets = 150", ""},
		{"no addresses", `sources = ["10.0.0.0/8", "0.0.0.0", "fe80::1%eth0"]`, `
t.toml:14:12: upstream[0].sources[0] = "10.0.0.0/8": want an IP address, for example "10.0.0.5"
t.toml:14:26: upstream[0].sources[1] = "0.0.0.0": want an address of this machine
t.toml:14:37: upstream[0].sources[2] = "fe80::1%eth0": want an IP address, for example "10.0.0.5"`},
		{"twice", `sources = ["10.0.0.5", "10.0.0.5"]`,
			`t.toml:14:24: upstream[0].sources[1] = "10.0.0.5": want each only once; upstream[0].sources[0] is the same`},
		{"other family", `sources = ["::1"]`,
			`t.toml:14:11: upstream[0].sources = ["::1"]: want also an address of the same family as upstream[0].servers[0] on line 15`},
		{"out of range", "max_packets = 10001\nmax_packets_per = \"2s\"", `
t.toml:14:15: upstream[0].max_packets = 10001: want 0 to 10000
t.toml:15:19: upstream[0].max_packets_per = "2s": want "1ms" to "1s"`},
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
t.toml:16:11: upstream[0].sources = ["::1"]: want []: source addresses work only with UDP`)
}
