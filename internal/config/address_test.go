package config

import (
	"strings"
	"testing"
)

func TestPorts(t *testing.T) {
	for _, row := range []struct {
		text  string
		ports int
		last  string
	}{
		{"0.0.0.0:7000", 1, "0.0.0.0:7000"},
		{"0.0.0.0:7000-7099", 100, "0.0.0.0:7099"},
		{"[fe80::1%eth-0]:7000-7001", 2, "[fe80::1%eth-0]:7001"},
		{"[fe80::1%eth-0]:7000", 1, "[fe80::1%eth-0]:7000"},
		{"1.2.3.4:1-65535", 65535, "1.2.3.4:65535"},
	} {
		var a Address
		if err := a.UnmarshalText([]byte(row.text)); err != nil {
			t.Errorf("%s: %v", row.text, err)
			continue
		}
		if got := a.Nth(a.Ports() - 1).String(); a.Ports() != row.ports || got != row.last || a.String() != row.text {
			t.Errorf("%s has %d ports to %s, and reads %s", row.text, a.Ports(), got, a)
		}
	}
	for _, text := range []string{"1.2.3.4:7000-7000", "1.2.3.4:7001-7000", "1.2.3.4:0-9", "1.2.3.4:7000-", "1.2.3.4:-7",
		"1.2.3.4:7000-70000"} {
		if err := new(Address).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}

// TestPortRules has a row for each rule about ports.
func TestPortRules(t *testing.T) {
	second := `

[[listener]]
name = "second"
address = "0.0.0.0:7099"
protocols = ["raknet"]
route = "arena"
`
	for _, row := range []struct{ name, listen, servers, more, want string }{
		{"one to one", "0.0.0.0:7000-7099", `"127.0.0.1:8000-8099", "127.0.0.2:9000-9099"`, "", ""},
		{"many to one", "0.0.0.0:7000-7099", `"127.0.0.1:8000"`, "", ""},
		{"a table", "0.0.0.0:7000-7001", `{ address = "127.0.0.1:8000-8001", weight = 2 }`, "", ""},
		{"unlike the servers", "0.0.0.0:7000-7098", `"127.0.0.1:8000-8099"`, "",
			`3:11: listener[0].address = "0.0.0.0:7000-7098": want 100 ports, as many as the servers of upstream[0] on ` +
				`line 11 have`},
		{"unlike each other", "0.0.0.0:7000-7099", `"127.0.0.1:8000-8099", "127.0.0.2:9000"`, "",
			`14:35: upstream[0].servers[1] = "127.0.0.2:9000": want as many ports as upstream[0].servers[0], which has 100`},
		{"a wide one", "0.0.0.0:7000-8000", `"127.0.0.1:9000"`, "",
			`3:11: listener[0].address = "0.0.0.0:7000-8000": want at most 1000 ports`},
		{"overlap", "0.0.0.0:7000-7099", `"127.0.0.1:8000"`, second,
			`19:11: listener[1].address = "0.0.0.0:7099": want an address and port of its own; listener[0] on line 1 ` +
				`takes 0.0.0.0:7000-7099`},
		{"beside", "0.0.0.0:7000-7098", `"127.0.0.1:8000"`, second, ""},
		{"a circle", "0.0.0.0:7000-7099", `"127.0.0.1:7050"`, "",
			`14:12: upstream[0].servers[0] = "127.0.0.1:7050": want a game server; this is listener[0] on line 1 of ` +
				`Tidegate itself`},
	} {
		t.Run(row.name, func(t *testing.T) {
			text := strings.Replace(valid, "0.0.0.0:7777", row.listen, 1)
			text = strings.Replace(text, `"127.0.0.1:19132"`, row.servers, 1) + row.more
			_, _, err := Parse("t.toml", []byte(text), known)
			want := ""
			if row.want != "" {
				want = "t.toml:" + row.want
			}
			check(t, err, want)
		})
	}
}

// TestLargestPort names the largest port to a user who wrote a larger one.
func TestLargestPort(t *testing.T) {
	if got := expectedAddress(addressType, "0.0.0.0:77777"); !strings.Contains(got, "the largest port is 65535") {
		t.Errorf("%q", got)
	}
	if got, want := expectedAddress(addressType, "::1:24720"), `an IPv6 address in brackets: "[::1]:24720"`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := expectedAddress(addressType, "localhost:7777"); strings.Contains(got, "largest") {
		t.Errorf("%q", got)
	}
}
