package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestRules has a row for each rule that a file can break: the valid file with one line changed.
func TestRules(t *testing.T) {
	long := strings.Repeat("n", maxName)
	for _, row := range []struct{ name, old, replacement, want string }{
		{"no name", `name = "public"` + "\n", "",
			`1:3: listener[0].name: want a name of 1 to 64 letters, digits, - and _`},
		{"name of other letters", `"public"`, `"pub lic"`,
			`2:8: listener[0].name = "pub lic": want a name of 1 to 64 letters, digits, - and _`},
		{"long name", `"public"`, `"` + long + `x"`,
			`2:8: listener[0].name = "` + long[:maxRendered] + `...": want a name of 1 to 64 letters, digits, - and _`},
		{"longest name", `"public"`, `"` + long + `"`, ""},
		{"name twice", "[[upstream]]",
			"[[upstream]]\nname = \"arena\"\nprotocol = \"raknet\"\nservers = [\"1.1.1.1:1\"]\n[[upstream]]",
			`16:8: upstream[1].name = "arena": want a name of its own; upstream[0] on line 11 has it already`},
		{"no address", `address = "0.0.0.0:7777"` + "\n", "",
			`1:3: listener[0].address: want ip:port, for example "0.0.0.0:7777"`},
		{"no protocols", `["raknet"]`, `[]`,
			`4:13: listener[0].protocols = []: want at least one protocol, for example ["raknet"]`},
		{"unknown protocol", `["raknet"]`, `["raknet", "riptide"]`,
			`4:24: listener[0].protocols[1] = "riptide": want one of its versions: "riptide-2.0" or ` +
				`"riptide-2.2"`},
		{"protocol without server side", `["raknet"]`, `["deaf"]`,
			`4:14: listener[0].protocols[0] = "deaf": want "any", "bedrock", "lossy", "mute", "raknet", "riptide-2.0", ` +
				`"riptide-2.2", "rtype" or "rudp"`},
		{"protocol twice", `["raknet"]`, `["raknet", "bedrock", "raknet"]`,
			`4:35: listener[0].protocols[2] = "raknet": want each only once; listener[0].protocols[0] is the same`},
		{"unknown route", `route = "arena"`, `route = "moon"`,
			`5:9: listener[0].route = "moon": want the name of one of the [[route]] tables: "arena"`},
		{"no route at all", "[[route]]\nname = \"arena\"\nupstream = \"arena\"\n", "",
			`5:9: listener[0].route = "arena": want the name of one of the [[route]] tables; there is none`},
		{"route to unknown upstream", `upstream = "arena"`, `upstream = "moon"`,
			`9:12: route[0].upstream = "moon": want the name of one of the [[upstream]] tables: "arena"`},
		{"route to no upstream", "upstream = \"arena\"\n", "",
			`7:3: route[0].upstream: want the name of one of the [[upstream]] tables: "arena"`},
		{"small queue", `upstream = "arena"`, "upstream = \"arena\"\nqueue = \"16383B\"",
			`10:9: route[0].queue = "16383B": want "16KiB" to "1GiB"`},
		{"no byte after the packet ID", `upstream = "arena"`, "upstream = \"arena\"\npacket_id = 255",
			`10:13: route[0].packet_id = 255: want 28 to 254`},
		{"packet ID of two bytes", `upstream = "arena"`, "upstream = \"arena\"\npacket_id = 300",
			`10:13: route[0].packet_id = 300: want 28 to 254`},
		{"packet ID of RakNet's own", `upstream = "arena"`, "upstream = \"arena\"\npacket_id = 26",
			`10:13: route[0].packet_id = 26: want 28 to 254`},
		{"packet ID of RakNet's time", `upstream = "arena"`, "upstream = \"arena\"\npacket_id = 27",
			`10:13: route[0].packet_id = 27: want 28 to 254`},
		{"lowest packet ID", `upstream = "arena"`, "upstream = \"arena\"\npacket_id = 28", ""},
		{"no upstream protocol", `protocol = "raknet"` + "\n", "",
			`11:3: upstream[0].protocol: want "any", "bedrock", "deaf", "lossy", "raknet", "riptide-2.0", "riptide-2.2", ` +
				`"rtype" or "rudp"`},
		{"upstream protocol without client side", `protocol = "raknet"`, `protocol = "mute"`,
			`13:12: upstream[0].protocol = "mute": want "any", "bedrock", "deaf", "lossy", "raknet", "riptide-2.0", ` +
				`"riptide-2.2", "rtype" or "rudp"`},
		{"hold on a relay", `upstream = "arena"`, "upstream = \"arena\"\nmode = \"relay\"\nfailover = \"hold\"",
			`11:12: route[0].failover = "hold": want "disconnect": a route in mode "relay" does not understand the ` +
				`players' protocol`},
		{"health without a question", `protocol = "raknet"`, "protocol = \"raknet\"\nhealth = \"connect\"",
			`14:10: upstream[0].health = "connect": want "ping", which players do not notice`},
		{"health that nobody asks for", `protocol = "raknet"`, "protocol = \"raknet\"\nhealth = \"http\"",
			`14:10: upstream[0].health = "http": want "auto": no listener with "nethernet" leads to it, so nobody would ask`},
		{"time for an answer", `protocol = "raknet"`, "protocol = \"raknet\"\nhealth_timeout = \"3s\"",
			`14:1: upstream[0].health_timeout = "3s": want this key removed: it is half of health_interval, 1 s to 5 s, ` +
				`at most the interval`},
		{"transparent from elsewhere", `protocol = "raknet"`,
			"protocol = \"raknet\"\nsources = [\"players\", \"shared\"]",
			`14:11: upstream[0].sources = ["players", "shared"]: want addresses or "shared", or one prefix, or "players" alone`},
		{"weight and bound out of range", `servers = ["127.0.0.1:19132"]`,
			`servers = [{ address = "127.0.0.1:19132", weight = 0, max_sessions = -1 }]`,
			`14:52: upstream[0].servers[0].weight = 0: want 1 to 1000` + "\n" +
				`t.toml:14:70: upstream[0].servers[0].max_sessions = -1: want 0 to 1000000`},
		{"upstream without servers", `servers = ["127.0.0.1:19132"]`, "",
			`11:3: upstream[0].servers: want at least one ip:port, for example ["127.0.0.1:19132"]`},
		{"server twice", `["127.0.0.1:19132"]`, `["127.0.0.1:19132", "127.0.0.1:19132"]`,
			`14:31: upstream[0].servers[1] = "127.0.0.1:19132": want each only once; upstream[0].servers[0] is the same`},
		{"server without port", `["127.0.0.1:19132"]`, `["127.0.0.1:0"]`,
			`14:12: upstream[0].servers[0] = "127.0.0.1:0": want the address and port that the game server listens on`},
		{"server anywhere", `["127.0.0.1:19132"]`, `["0.0.0.0:19132"]`,
			`14:12: upstream[0].servers[0] = "0.0.0.0:19132": want the address and port that the game server listens on`},
		{"server is Tidegate", `["127.0.0.1:19132"]`, `["127.0.0.1:7777"]`,
			`14:12: upstream[0].servers[0] = "127.0.0.1:7777": want a game server; ` +
				`this is listener[0] on line 1 of Tidegate itself`},
		{"server is Tidegate, in IPv6's spelling", `["127.0.0.1:19132"]`, `["[::ffff:127.0.0.1]:7777"]`,
			`14:12: upstream[0].servers[0] = "[::ffff:127.0.0.1]:7777": want a game server; ` +
				`this is listener[0] on line 1 of Tidegate itself`},
		{"server of many", `["127.0.0.1:19132"]`, `["224.0.0.1:19132"]`,
			`14:12: upstream[0].servers[0] = "224.0.0.1:19132": want the address and port that the game server listens on`},
		{"server of all", `["127.0.0.1:19132"]`, `["255.255.255.255:19132"]`,
			`14:12: upstream[0].servers[0] = "255.255.255.255:19132": want the address and port that the game server ` +
				`listens on`},
		{"server anywhere, in IPv6's spelling", `["127.0.0.1:19132"]`, `["[::ffff:0.0.0.0]:19132"]`,
			`14:12: upstream[0].servers[0] = "[::ffff:0.0.0.0]:19132": want the address and port that the game server ` +
				`listens on`},
		{"server on another machine's port", `["127.0.0.1:19132"]`, `["10.0.0.2:7777"]`, ""},
		{"a rest of one's own", `protocol = "raknet"`, "protocol = \"raknet\"\nretry_after = \"99ms\"",
			`14:1: upstream[0].retry_after = "99ms": want this key removed: a server that has failed a session rests for ` +
				`5 s, then longer`},
		{"fault in a list is not taken for another", `["127.0.0.1:19132"]`, `["x", "127.0.0.1:19132"]`,
			`14:12: upstream[0].servers[0] = "x": want ip:port, for example "10.0.0.5:7777"`},
		{"reliable towards lossy", `protocol = "raknet"`, `protocol = "lossy"`,
			`7:3: route[0].allow_lossy: want true, to accept losses, or another upstream protocol: ` +
				"lossy does not resend messages that raknet promises to deliver; lossy does not keep the order that raknet " +
				"promises"},
		{"reliable towards reports", `protocol = "raknet"`, `protocol = "rudp"`,
			`7:3: route[0].ordered: want "fast" (sent at once: rate is kept, order only while the network keeps it), ` +
				`"strict" (one message per round trip and channel: order is kept, rate is not) or allow_lossy = true: ` +
				"rudp does not keep the order that raknet promises\n" +
				`t.toml:7:3: route[0].reliable: want "resend" (repeat until acknowledged: at least once), ` +
				`"report" (send once and count losses) or allow_lossy = true: ` +
				"rudp only reports the loss of messages that raknet promises to deliver"},
	} {
		t.Run(row.name, func(t *testing.T) {
			want := row.want
			if want != "" {
				want = "t.toml:" + want
			}
			_, _, err := Parse("t.toml", change(t, row.old, row.replacement), known)
			check(t, err, want)
		})
	}
}

// TestRanges checks every number of the tables without names, at both ends of its range and just outside.
func TestRanges(t *testing.T) {
	for _, row := range []struct{ key, below, low, high, above, want string }{
		{"loop.count", "-1", "0", "1024", "1025", "0 to 1024"},
		{"loop.max_batch_delay", "", `"0s"`, `"100ms"`, `"101ms"`, `"0s" to "100ms"`},
		{"loop.receive_buffer", `"63KiB"`, `"64KiB"`, `"1GiB"`, `"1025MiB"`, `"64KiB" to "1GiB"`},
		{"limits.sessions", "0", "1", "1000000", "1000001", "1 to 1000000"},
		{"limits.half_open", "0", "1", "1000000", "1000001", "1 to 1000000"},
		{"limits.handshake_timeout", `"999ms"`, `"1s"`, `"5m"`, `"5m1s"`, `"1s" to "5m"`},
		{"limits.idle_timeout", `"999ms"`, `"1s"`, `"24h"`, `"24h0m1s"`, `"1s" to "24h"`},
		{"limits.ping_answers", "0", "1", "1000000", "1000001", "1 to 1000000"},
		{"raknet.max_mtu", "575", "576", "1492", "1493", "576 to 1492"},
		{"raknet.max_message", `"1023B"`, `"1KiB"`, `"64MiB"`, `"65MiB"`, `"1KiB" to "64MiB"`},
		{"raknet.timeout", `"999ms"`, `"1s"`, `"5m"`, `"5m1s"`, `"1s" to "5m"`},
		{"limits.sessions_per_address", "0", "1", "1000000", "1000001", "1 to 1000000"},
		{"limits.held_bytes", `"1023KiB"`, `"1MiB"`, `"1024GiB"`, `"1025GiB"`, `"1MiB" to "1024GiB"`},
		{"riptide.heartbeat", `"99ms"`, `"100ms"`, `"4s"`, "", `"100ms" to "1m"`},
		{"riptide.timeout", "", `"1001ms"`, `"5m"`, `"5m1s"`, `"1s" to "5m"`},
		{"riptide.max_payload", "0", "1", "4090", "4091", "1 to 4090"},
		{"rudp.rate", "0", "1", "255", "", "1 to 255"},
		{"rtype.ping_interval", "", `"0s"`, `"5m"`, `"5m1s"`, `"0s" to "5m"`},
		{"rtype.idle_timeout", `"999ms"`, `"1s"`, `"1h"`, `"1h0m1s"`, `"1s" to "1h"`},
		{"rtype.server_timeout", `"999ms"`, `"1s"`, `"1h"`, `"1h0m1s"`, `"1s" to "1h"`},
		{"rtype.refresh", "", `"0s"`, `"1h"`, `"1h0m1s"`, `"0s" to "1h"`},
		{"rtype.components.Position", "-1", "0", "1024", "1025", "0 to 1024"},
	} {
		for _, good := range []string{row.low, row.high} {
			if _, _, err := Parse("t.toml", []byte(row.key+" = "+good+"\n"+valid), known); err != nil {
				t.Error(err)
			}
		}
		for _, bad := range []string{row.below, row.above} {
			if bad == "" {
				continue
			}
			_, _, err := Parse("t.toml", []byte(row.key+" = "+bad+"\n"+valid), known)
			check(t, err, fmt.Sprintf("t.toml:1:%d: %s = %s: want %s", len(row.key)+4, row.key, bad, row.want))
		}
	}
}

func TestProtocolOptions(t *testing.T) {
	for _, row := range []struct{ line, want string }{
		{`loop = { count = 2, backend = "portable" }`, `1:18: loop.count = 2: want 1, or loop.backend = "auto": ` +
			"portable sockets cannot share a port between loops"},
		{`raknet.versions = ["x", 0]`, `1:20: raknet.versions[0] = "x": want a whole number from 0 to 255`},
		{`raknet.versions = [9, 9]`, `1:23: raknet.versions[1] = 9: want each only once; raknet.versions[0] is the same`},
		{`raknet.pong = "` + strings.Repeat("p", 401) + `"`,
			`1:15: raknet.pong = "` + strings.Repeat("p", maxRendered) + `...": want at most 400 bytes of text`},
		{`riptide.timeout = "1s"`, `1:19: riptide.timeout = "1s": want longer than riptide.heartbeat, which is 1s`},
		{`rtype.components = 8`, `1:20: rtype.components = 8: want a table: a [header] and keys below it`},
		{`rtype.components = { A = 1, B = "2" }`, `1:33: rtype.components.B = "2": want a whole number`},
		{`rtype.components."" = 1`, `1:23: rtype.components."" = 1: want a name of 1 to 255 bytes`},
		{`rtype.components."` + strings.Repeat("n", 256) + `" = 1`,
			`1:279: rtype.components.` + strings.Repeat("n", 256) + ` = 1: want a name of 1 to 255 bytes`},
		{`riptide.heartbeat = "5s"`,
			`1:1: riptide.timeout = "5s" (default): want longer than riptide.heartbeat, which is 5s`},
	} {
		_, _, err := Parse("t.toml", []byte(row.line+"\n"+valid), known)
		check(t, err, "t.toml:"+row.want)
	}
	longest := "loop = { count = 1, backend = \"portable\" }\n" + `raknet.pong = "` + strings.Repeat("p", 400) + "\"\n" +
		"rtype.components." + strings.Repeat("n", 255) + " = 1\n"
	if _, _, err := Parse("t.toml", []byte(longest+valid), known); err != nil {
		t.Error(err)
	}
}

// TestAliases checks that an alias of a protocol is a fault that gives the right name.
func TestAliases(t *testing.T) {
	for alias, name := range map[string]string{"minecraft": "bedrock", "riptide-2.1": "riptide-2.2",
		"riptide-2.0.1": "riptide-2.0"} {
		_, _, err := Parse("t.toml", change(t, `protocols = ["raknet"]`, `protocols = ["`+alias+`"]`), known)
		if want := `listener[0].protocols[0] = "` + alias + `": want "` + name + `", Tidegate's name for ` +
			alias; err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	text := strings.Replace(valid, `["raknet"]`, `["riptide-2.2"]`, 1)
	text = strings.Replace(text, "[[route]]", "[[route]]\nordered = \"fast\"\nenvelope = \"raw\"", 1)
	text += `
[[upstream]]
name = "attic"
protocol = "raknet"
servers = ["127.0.0.1:19133"]

[[route]]
name = "cellar"
upstream = "arena"
`
	_, warnings, err := Parse("t.toml", []byte(text), known)
	if err != nil {
		t.Fatal(err)
	}
	check(t, Faults(warnings), `
t.toml:9:12: route[0].envelope = "raw": want "id" or "framed" if the game distinguishes messages by ID: raknet has
    no message IDs and riptide-2.2 has
t.toml:19:8: upstream[1].name = "attic": want a route that uses this upstream
t.toml:24:8: route[1].name = "cellar": want a listener that uses this route
`)
}

func TestRestartKeys(t *testing.T) {
	old, next := Default(), Default()
	if got := old.RestartKeys(next); len(got) > 0 {
		t.Errorf("equal configurations differ in %v", got)
	}
	next.Log.Level, next.Loop.Count, next.Bans.File = Debug, 3, "other"
	if got, want := old.RestartKeys(next), []string{"log.level", "loop.count", "bans.file"}; !slices.Equal(got, want) {
		t.Errorf("Fixed = %v, want %v", got, want)
	}
}
