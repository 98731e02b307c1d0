package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

// change replaces old in the valid file. old must be there.
func change(t *testing.T, old, replacement string) []byte {
	t.Helper()
	if !strings.Contains(valid, old) {
		t.Fatalf("%q is not in the valid file", old)
	}
	return []byte(strings.Replace(valid, old, replacement, 1))
}

func TestWrongTypes(t *testing.T) {
	for _, row := range []struct{ name, text, want string }{
		{"switch", `log.player_addresses = "no"`, `1:24: log.player_addresses = "no": want true or false`},
		{"switch for a word", `log.level = true`, `1:13: log.level = true: want "debug", "info", "warn" or "error"`},
		{"not one of the words", `log.level = "loud"`, `1:13: log.level = "loud": want "debug", "info", "warn" or "error"`},
		{"empty word", `log.format = ""`, `1:14: log.format = "": want "auto", "human" or "json"`},
		{"number for text", `raknet.pong = 5`, `1:15: raknet.pong = 5: want text in quotes`},
		{"fraction", `limits.sessions = 1.5`, `1:19: limits.sessions = 1.5: want a whole number`},
		{"fraction of nothing", `limits.sessions = 1.0`, `1:19: limits.sessions = 1.0: want a whole number`},
		{"large fraction", `limits.sessions = 1e30`, `1:19: limits.sessions = 1e+30: want a whole number`},
		{"infinity", `limits.sessions = inf`, `1:19: limits.sessions = inf: want a whole number`},
		{"negative duration", `limits.idle_timeout = "-5s"`, `1:23: limits.idle_timeout = "-5s": ` +
			`want a duration that is not negative, for example "10s"`},
		{"duration beyond all", `limits.idle_timeout = "9999999h"`, `1:23: limits.idle_timeout = "9999999h": ` +
			`want a shorter duration, for example "10s"`},
		{"beyond 16 bits", `raknet.max_mtu = 65536`, `1:18: raknet.max_mtu = 65536: want a whole number from 0 to 65535`},
		{"negative", `raknet.max_mtu = -1`, `1:18: raknet.max_mtu = -1: want a whole number from 0 to 65535`},
		{"list element", `raknet.versions = [6, 256]`, `1:23: raknet.versions[1] = 256: want a whole number from 0 to 255`},
		{"number for a list", `raknet.versions = 6`,
			`1:19: raknet.versions = 6: want a list in brackets, each a whole number from 0 to 255`},
		{"list for a number", `limits.sessions = [1, "a", [2]]`,
			`1:19: limits.sessions = [1, "a", [...]]: want a whole number`},
		{"number for a duration", `limits.idle_timeout = 30`,
			`1:23: limits.idle_timeout = 30: want a duration in quotes, with its unit (ms, s, m, h or d), for example "10s"`},
		{"duration without unit", `limits.idle_timeout = "30"`,
			`1:23: limits.idle_timeout = "30": want a duration in quotes, with its unit (ms, s, m, h or d), for example "10s"`},
		{"number for a size", `raknet.max_message = 5`,
			`1:22: raknet.max_message = 5: want a size in quotes, whole and with its unit (B, KiB, MiB or GiB), ` +
				`for example "2MiB"`},
		{"table for text", "[log.level]\na = 1", `1:6: log.level: want "debug", "info", "warn" or "error"`},
		{"table for an address", "[[upstream]]\nname = \"u\"\nprotocol = \"raknet\"\nservers = [{ip = 1}]",
			`4:12: upstream[0].servers[0]: want ip:port, for example "10.0.0.5:7777"` + "\n" +
				`t.toml:4:13: upstream[0].servers[0].ip = 1: want a known key; did you mean "address"?`},
		{"address for a list", "[[upstream]]\nname = \"u\"\nprotocol = \"raknet\"\nservers = \"1.1.1.1:1\"",
			`4:11: upstream[0].servers = "1.1.1.1:1": want a list in brackets, each ip:port, for example "10.0.0.5:7777"`},
		{"text for a table", `log = "info"`, `1:7: log = "info": want a table: a [header] and keys below it`},
		{"date", `limits.sessions = 2026-11-21`, `1:19: limits.sessions = "2026-11-21": want a whole number`},
		{"long text", `limits.sessions = "x` + strings.Repeat("é", 40) + `"`,
			`1:19: limits.sessions = "x` + strings.Repeat("é", 29) + `...": want a whole number`},
		{"long list", `limits.sessions = [` + strings.Repeat("1,", 40) + `]`,
			`1:19: limits.sessions = [` + strings.Repeat("1, ", 20) + `1, ...]: want a whole number`},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, _, err := Parse("t.toml", []byte(row.text+"\n"+valid), known)
			check(t, err, "t.toml:"+row.want)
		})
	}
}

func TestAddresses(t *testing.T) {
	for _, row := range []struct{ value, want string }{
		{`":70000"`, `":70000": want ip:port, for example "0.0.0.0:7777"`},
		{`"1.2.3.4"`, `"1.2.3.4": want ip:port, for example "0.0.0.0:7777"`},
		{`"1.2.3.4:70000"`, `"1.2.3.4:70000": want ip:port, for example "0.0.0.0:7777"; the largest port is 65535`},
		{`"::1:7777"`, `"::1:7777": want an IPv6 address in brackets: "[::1]:7777"`},
		{`"example.com:7777"`,
			`"example.com:7777": want ip:port, for example "0.0.0.0:7777"; ` +
				`host names are looked up only by discover of [[upstream]]`},
		{`7777`, `7777: want ip:port, for example "0.0.0.0:7777"`},
	} {
		text := change(t, `address = "0.0.0.0:7777"`, "address = "+row.value)
		_, _, err := Parse("t.toml", text, known)
		check(t, err, "t.toml:3:11: listener[0].address = "+row.want)
	}
	for _, value := range []string{`"[::]:7777"`, `":7777"`, `"[::1]:7777"`, `"127.0.0.1:0"`} {
		if _, _, err := Parse("t.toml", change(t, `"0.0.0.0:7777"`, value), known); err != nil {
			t.Error(err)
		}
	}
}

// TestFormerKeys tells for each key that a table had earlier how things are now.
func TestFormerKeys(t *testing.T) {
	_, _, err := Parse("t.toml", []byte("rtype.era = \"late\"\nrtype.max_rate = 5\n"+valid), known)
	check(t, err, `t.toml:1:7: rtype.era = "late": want this key removed: protocol "rtype" finds the age of the game out`+
		"\n"+`t.toml:2:7: rtype.max_rate = 5: want this key removed: a [[limit]] of = "packets", per = "session" bounds `+
		"what a player sends")
	var all map[string]map[string]string
	if err := toml.Unmarshal(formerKeys, &all); err != nil || len(all) < 10 {
		t.Fatal(all, err)
	}
	for table, keys := range all {
		header := "[" + table + "]"
		if table == "" {
			header = ""
		}
		if value, ok := fieldOf(reflect.ValueOf(Default()).Elem(), table); ok && value.Kind() == reflect.Slice {
			header = "[" + header + "]"
		}
		for key, now := range keys {
			_, _, err := Parse("t.toml", []byte(header+"\n"+key+" = 1\n"), known)
			if want := key + " = 1: want this key removed: " + now; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
	}
	_, _, err = Parse("t.toml", []byte("[[listener]]\n[listener.raknet]\ncookies = true\n"), known)
	if want := "listener[0].raknet.cookies = true: want this key removed"; !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestUnknownKeys(t *testing.T) {
	for _, row := range []struct{ name, old, replacement, want string }{
		{"typo and so missing is one fault", "upstream = ", "upstraem = ",
			`t.toml:9:1: route[0].upstraem = "arena": want a known key; did you mean "upstream"?`},
		{"typo in a table", "[[listener]]", "[[lissener]]",
			`t.toml:1:3: lissener: want a known key; did you mean "listener"?`},
		{"typo in a list that others refer to", "[[upstream]]", "[[upstrem]]",
			`t.toml:11:3: upstrem: want a known key; did you mean "upstream"?`},
		{"typo in a name that others refer to", "[[route]]\nname", "[[route]]\nneme",
			`t.toml:8:1: route[0].neme = "arena": want a known key; did you mean "name"?`},
		{"other case", "protocols", "Protocols",
			`t.toml:4:1: listener[0].Protocols = ["raknet"]: want a known key; did you mean "protocols"?`},
		{"nothing like it", "route = ", "destination = ",
			`t.toml:1:3: listener[0].route: want the name of one of the [[route]] tables: "arena"` + "\n" +
				`t.toml:5:1: listener[0].destination = "arena": want a known key: name, address, transport, protocols, route, ` +
				`idle_timeout, proxy_protocol_from, public_addresses, tls_certificate, tls_key, identity, identity_key, ` +
				`identity_issuer, raknet, riptide, rudp, enet or rtype`},
		{"typo in a message", "[[upstream]]", "[[route.message]]\nid = 1\ntype = [\"int\"]\n[[upstream]]",
			`t.toml:13:1: route[0].message[0].type = ["int"]: want a known key; did you mean "types"?`},
		{"one bracket", "[[route]]", "[route]",
			"t.toml:7:2: route: want a list of tables: a [[header]] in two brackets for each"},
		{"needs quotes", "route = ", `"rou te\n" = 1` + "\nroute = ",
			`t.toml:5:1: listener[0]."rou te\n" = 1: want a known key; did you mean "route"?`},
		{"empty key", "[[listener]]", "\"\" = 1\n[[listener]]",
			`t.toml:1:1: "" = 1: want a known key: log, loop, limits, limit, bans, kernel, listener, route, upstream, ` +
				`access, filter, geo, raknet, riptide, rudp, enet, rtype, record, admin or fleet`},
		{"with the right key beside it", "route = ", "rout = 1\nroute = 7 # ",
			`t.toml:5:1: listener[0].rout = 1: want a known key; did you mean "route"?` + "\n" +
				`t.toml:6:9: listener[0].route = 7: want text in quotes`},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, _, err := Parse("t.toml", change(t, row.old, row.replacement), known)
			check(t, err, row.want)
		})
	}
}
