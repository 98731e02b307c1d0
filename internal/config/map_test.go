package config

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"tidegate/codec"
)

// mapped has players of Riptide, and of RakNet where a test adds them, on a RakNet server.
const mapped = `[[listener]]
name = "public"
address = "0.0.0.0:7777"
protocols = ["riptide-2.2"]
route = "arena"
[[upstream]]
name = "arena"
protocol = "raknet"
servers = ["127.0.0.1:19132"]
[[route]]
name = "arena"
upstream = "arena"
ordered = "fast"
`

// mapTraits knows what a map depends on.
func mapTraits() map[string]Traits {
	all := maps.Clone(known)
	for name, t := range all {
		switch name {
		case "raknet":
			t.Modes, t.Channels, t.FirstByte = codec.ModesOf(codec.Unreliable, codec.ReliableOrdered), 32, true
		case "riptide-2.2", "riptide-2.0":
			t.Modes, t.IDs = codec.ModesOf(codec.Unreliable, codec.Reliable, codec.Notify), true
		case "lossy":
			t.Modes, t.Closed = codec.ModesOf(codec.Unreliable), true
		}
		all[name] = t
	}
	return all
}

// TestMapFaults reports all faults of a map at once, each with its remedy.
func TestMapFaults(t *testing.T) {
	many := strings.Repeat("[[route.map]]\nclient = \"7\"\nserver = \"0x90\"\n", maxMapRows+1)
	for _, c := range []struct{ what, players, rows, want string }{
		{"as it is", "", "[[route.map]]\nclient = \"7\"\nserver = \"0x90\"\nmode = \"reliable-ordered\"\nchannel = 31", ""},
		{"all forms", "", "[[route.map]]\nclient = \"100-199\"\nserver = \"0x90 0-99:u16be\"", ""},
		{"bytes of RakNet players", `, "raknet"`, "[[route.map]]\nclient = \"0x90:u8\"\nserver = \"0x91\"\n" +
			"[[route.map]]\nclient = \"7\"\nserver = \"0x92\"", ""},
		{"one each way", "", "[[route.map]]\nclient = \"7\"\nserver = \"0x90\"\nfrom = \"client\"\n[[route.map]]\n" +
			"client = \"7\"\nserver = \"0x90\"\nfrom = \"upstream\"\nmode = \"reliable\"", ""},
		{"texts", "", "[[route.map]]\nclient = \"seven\"\nserver = 0x90\nfrom = \"me\"\nmode = \"fast\"\nchannel = 256", `
t.toml:15:10: route[0].map[0].client = "seven": want an ID in quotes, for example "7" or "100-199", or bytes, for ` +
			`example "0x86 7:u16le"
t.toml:16:10: route[0].map[0].server = 144: want an ID in quotes, for example "7" or "100-199", or bytes, for ` +
			`example "0x86 7:u16le"
t.toml:17:8: route[0].map[0].from = "me": want "any", "client" or "upstream"
t.toml:18:8: route[0].map[0].mode = "fast": want "unreliable", "unreliable-sequenced", "reliable", ` +
			`"reliable-ordered", "reliable-sequenced" or "notify"
t.toml:19:11: route[0].map[0].channel = 256: want -1 to 255`},
		{"nothing stated", "", "[[route.map]]", `
t.toml:14:3: route[0].map[0].client: want an ID in quotes, for example "7" or "100-199", or bytes, for example ` +
			`"0x86 7:u16le"
t.toml:14:3: route[0].map[0].server: want an ID in quotes, for example "7" or "100-199", or bytes, for example ` +
			`"0x86 7:u16le"`},
		{"forms", "", "[[route.map]]\nclient = \"0x90:u8\"\nserver = \"19\"\n[[route.map]]\nclient = \"1-2\"\n" +
			"server = \"300-302\"", `
t.toml:15:10: route[0].map[0].client = "0x90:u8": want a number alone, such as "7": each message of riptide-2.2 has ` +
			`an ID beside it
t.toml:16:10: route[0].map[0].server = "19": want a first byte from 28: raknet uses 19 itself
t.toml:19:10: route[0].map[1].server = "300-302": want as many numbers as client has: 2`},
		{"a width", "", "[[route.map]]\nclient = \"1\"\nserver = \"300\"", `
t.toml:16:10: route[0].map[0].server = "300": want a byte, or a width: u16le, u16be, u32le or u32be, as in ` +
			`"300:u16le"`},
		{"receivers", "", "[[route.map]]\nclient = \"1\"\nserver = \"90\"\nmode = \"notify\"\nchannel = 32\n[[route.map]]\n" +
			"client = \"2\"\nserver = \"91\"\nfrom = \"upstream\"\nmode = \"notify\"\nchannel = 0", `
t.toml:17:8: route[0].map[0].mode = "notify": want a mode that raknet has: "unreliable" or "reliable-ordered"
t.toml:18:11: route[0].map[0].channel = 32: want no channel, or a smaller one: raknet has 32
t.toml:23:8: route[0].map[1].mode = "notify": want a mode that riptide-2.2 has: "unreliable" or "reliable"
t.toml:24:11: route[0].map[1].channel = 0: want no channel, or a smaller one: riptide-2.2 has 0`},
		{"twice", "", "[[route.map]]\nclient = \"7-9\"\nserver = \"90-92\"\n[[route.map]]\nclient = \"9\"\nserver = \"91\"", `
t.toml:18:10: route[0].map[1].client = "9": want messages of its own; route[0].map[0] on line 14 has some of ` +
			"them already" + `
t.toml:19:10: route[0].map[1].server = "91": want messages of its own; route[0].map[0] on line 14 has some of ` +
			"them already"},
		{"too many", "", many, fmt.Sprintf(`
t.toml:%d:3: route[0].map[%d]: want at most %d rows`, 14+3*maxMapRows, maxMapRows, maxMapRows)},
	} {
		text := strings.Replace(mapped, `"riptide-2.2"`, `"riptide-2.2"`+c.players, 1) + c.rows + "\n"
		_, _, err := Parse("t.toml", []byte(text), mapTraits())
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.what, err)
			}
			continue
		}
		check(t, err, strings.TrimPrefix(c.want, "\n"))
	}
}

// TestMapWithoutEffect warns of rows on routes that cannot use them, and of messages that are not kept apart.
func TestMapWithoutEffect(t *testing.T) {
	row := "[[route.map]]\nclient = \"7\"\nserver = \"0x90\"\n"
	for _, c := range []struct{ old, text, want string }{
		{`ordered = "fast"`, `ordered = "fast"` + "\nundeclared = \"end\"", ""},
		{`ordered = "fast"`, `mode = "relay"`, "no [[route.map]] table: a relay translates nothing"},
	} {
		text := strings.Replace(mapped, c.old, c.text, 1)
		if strings.Contains(c.text, "relay") {
			text = strings.Replace(text, "riptide-2.2", "raknet", 1)
		}
		_, warnings, err := Parse("t.toml", []byte(text+row), mapTraits())
		if got := Faults(warnings).Error(); err != nil || (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q: %v, warnings %q, want %q", c.text, err, got, c.want)
		}
	}
	text := strings.Replace(mapped, `protocol = "raknet"`, `protocol = "lossy"`, 1)
	_, _, err := Parse("t.toml", []byte(text+row), mapTraits())
	if err == nil || !strings.Contains(err.Error(), `server = "0x90": want no [[route.map]]: lossy carries only its own`) {
		t.Errorf("a closed protocol: %v", err)
	}
}
