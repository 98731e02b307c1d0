package config

import (
	"reflect"
	"strings"
	"testing"

	"tidegate/internal/protocols"
)

// twoGames has two games of each of two protocols, with tables of their own before and after the process's.
const twoGames = `[[listener]]
name = "kart"
address = "0.0.0.0:7001"
protocols = ["riptide-2.2"]
route = "kart"
idle_timeout = "40s"
[listener.riptide]
timeout = "30s"
[[listener]]
name = "duel"
address = "0.0.0.0:7002"
protocols = ["riptide-2.2"]
route = "kart"
[[listener]]
name = "tag"
address = "0.0.0.0:7003"
protocols = ["enet"]
route = "tag"
enet = { channels = 3 }
[[route]]
name = "kart"
upstream = "kart"
[[route]]
name = "tag"
upstream = "tag"
[[upstream]]
name = "kart"
protocol = "riptide-2.2"
servers = ["127.0.0.1:8001"]
riptide.timeout = "20s"
[[upstream]]
name = "tag"
protocol = "enet"
servers = ["127.0.0.1:8002"]
[riptide]
heartbeat = "2s"
timeout = "6s"
[limits]
idle_timeout = "50s"
`

// gameTraits are those of the protocols of twoGames.
func gameTraits() map[string]Traits {
	return map[string]Traits{"riptide-2.2": known["riptide-2.2"], "raknet": known["raknet"],
		"enet": {Ordered: true, Sequenced: true, Reliable: true, Server: true, Client: true}}
}

func riptideOf(c *Config, own Options) *protocols.RiptideSettings {
	return own.Over(c.Options)["riptide"].(*protocols.RiptideSettings)
}

// TestOwnTables asserts that a table of a listener or an upstream replaces the process's, key by key, wherever the
// process's stands in the file.
func TestOwnTables(t *testing.T) {
	c, warnings, err := Parse("t.toml", []byte(twoGames), gameTraits())
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, Faults(warnings))
	}
	for name, row := range map[string]struct {
		own     Options
		timeout Duration
	}{
		"kart": {c.Listeners[0].Own, seconds(30)}, "duel": {c.Listeners[1].Own, seconds(6)},
		"servers": {c.Upstreams[0].Own, seconds(20)}, "process": {nil, seconds(6)},
	} {
		if got := riptideOf(c, row.own); got.Timeout != row.timeout || got.Heartbeat != seconds(2) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := c.Listeners[2].Own["enet"].(*protocols.ENetSettings); got.Channels != 3 || got.MTU != 1392 {
		t.Errorf("tag: %+v", got)
	}
	if a, b := c.Listeners[0].IdleTimeout, c.Listeners[1].IdleTimeout; a != seconds(40) || b != seconds(50) {
		t.Errorf("idle_timeout of kart %s, of duel %s", a, b)
	}
	if c.Listeners[2].Own["enet"].(*protocols.ENetSettings).MaxMessage = 64 * MiB; c.LargestMessage() != 64*MiB {
		t.Errorf("the largest message has %s", c.LargestMessage())
	}
}

// TestOwnTablesArePrinted asserts that the printed file means the same, and says where each value comes from.
func TestOwnTablesArePrinted(t *testing.T) {
	c, _, err := Parse("t.toml", []byte(twoGames), gameTraits())
	if err != nil {
		t.Fatal(err)
	}
	printed := Annotate(c.TOML(), c.Origins())
	again, _, err := Parse("printed.toml", []byte(printed), gameTraits())
	if err != nil {
		t.Fatalf("%v\n%s", err, printed)
	}
	changed, _, err := Parse("changed.toml", []byte(Changed(c.TOML(), c.Origins())), gameTraits())
	if err != nil {
		t.Fatalf("%v\n%s", err, Changed(c.TOML(), c.Origins()))
	}
	for _, line := range []string{
		`timeout = "30s" # line 8`, `idle_timeout = "40s" # line 6`, `idle_timeout = "50s" # [limits], line 39`,
		`heartbeat = "2s" # [riptide], line 36`, `max_payload = 1225 # default`, `timeout = "20s" # line 30`,
		"channels = 3 # line 19",
	} {
		if !strings.Contains(printed, line+"\n") {
			t.Errorf("no line %q in\n%s", line, printed)
		}
	}
	c.places, again.places, changed.places = nil, nil, nil
	if !reflect.DeepEqual(again, c) {
		t.Errorf("printed\n%s\nit means\n%+v\nwant\n%+v", printed, again, c)
	}
	if !reflect.DeepEqual(changed, c) {
		t.Errorf("the changed values mean\n%+v\nwant\n%+v", changed, c)
	}
	if got := c.Changes(again); len(got) > 0 {
		t.Errorf("changes: %+v", got)
	}
}

// TestOwnTableFaults has a row for each fault of such a table.
func TestOwnTableFaults(t *testing.T) {
	for _, row := range []struct{ old, text, want string }{
		{`timeout = "30s"`, `timeout = "6m"`, `8:11: listener[0].riptide.timeout = "6m": want "1s" to "5m"`},
		{`timeout = "30s"`, `timeouts = "6m"`, `8:1: listener[0].riptide.timeouts = "6m": want a known key; did you mean ` +
			`"timeout"?`},
		{`timeout = "30s"`, `heartbeat = "7s"`, `7:11: listener[0].riptide.timeout = "6s" (riptide.timeout): want longer ` +
			`than riptide.heartbeat, which is 7s`},
		{`timeout = "6s"`, `timeout = "1ms"`, `37:11: riptide.timeout = "1ms": want "1s" to "5m"`},
		{`enet = { channels = 3 }`, `enet = 3`, `19:8: listener[2].enet = 3: want a table: a [header] and keys below it`},
		{`enet = { channels = 3 }`, `rudp = { app_id = 3 }`,
			`19:8: listener[2].rudp: want no such table, or a protocol that uses it: enet does not`},
		{`idle_timeout = "40s"`, `idle_timeout = "0s"`, `6:16: listener[0].idle_timeout = "0s": want "1s" to "24h"`},
		{`idle_timeout = "50s"`, `idle_timeout = "0s"`, `39:16: limits.idle_timeout = "0s": want "1s" to "24h"`},
	} {
		_, _, err := Parse("t.toml", []byte(strings.Replace(twoGames, row.old, row.text, 1)), gameTraits())
		check(t, err, "t.toml:"+row.want)
	}
	const servers = `servers = ["127.0.0.1:8002"]`
	few := strings.Replace(twoGames, servers, servers+"\nenet.channels = 2", 1)
	_, warnings, err := Parse("t.toml", []byte(few), gameTraits())
	if err != nil {
		t.Fatal(err)
	}
	check(t, Faults(warnings), `t.toml:19:21: listener[2].enet.channels = 3: want at most 2, or a larger enet.channels
    for upstream[1] on line 31: messages of further channels go to channel 0 of its servers`)
}
