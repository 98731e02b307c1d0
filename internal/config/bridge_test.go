package config

import (
	"strings"
	"testing"
)

// TestBridges checks pairs of protocols against the options of a route. The key of the fault shows which guarantee
// would be lost.
func TestBridges(t *testing.T) {
	for _, row := range []struct{ client, upstream, says, faulty string }{
		{"raknet", "raknet", "", ""},
		{"raknet", "bedrock", "", ""},
		{"lossy", "lossy", "", ""},
		{"riptide-2.2", "riptide-2.2", "", ""},
		{"raknet", "riptide-2.2", "", "ordered"},
		{"riptide-2.2", "raknet", "", "ordered"},
		{"riptide-2.2", "raknet", `ordered = "fast"`, ""},
		{"riptide-2.2", "raknet", `ordered = "strict"`, ""},
		{"riptide-2.2", "raknet", `allow_lossy = true`, ""},
		{"riptide-2.2", "lossy", `ordered = "fast"`, "allow_lossy"},
		{"lossy", "riptide-2.2", `ordered = "strict"`, "allow_lossy"},
		{"lossy", "riptide-2.2", `allow_lossy = true`, ""},
		{"raknet", "rudp", `ordered = "fast"`, "reliable"},
		{"raknet", "rudp", `reliable = "resend"`, "ordered"},
		{"raknet", "rudp", "ordered = \"strict\"\nreliable = \"report\"", ""},
		{"raknet", "rudp", `allow_lossy = true`, ""},
		{"riptide-2.2", "rudp", "ordered = \"fast\"\nreliable = \"resend\"", ""},
		{"riptide-2.0", "rudp", `reliable = "resend"`, "ordered"}, // Riptide may deliver messages that RUDP drops as old
		{"riptide-2.0", "riptide-2.2", "", "ordered"},             // of notify messages
		{"riptide-2.0", "riptide-2.2", `ordered = "fast"`, ""},
		{"rudp", "rtype", "ordered = \"fast\"\nreliable = \"resend\"", "allow_lossy"},
		{"riptide-2.0", "rtype", `allow_lossy = true`, "envelope"},
		{"riptide-2.0", "rtype", "allow_lossy = true\nenvelope = \"framed\"", "envelope"},
		{"riptide-2.0", "rtype", "allow_lossy = true\nenvelope = \"raw\"", ""},
		{"rtype", "riptide-2.0", "allow_lossy = true\nenvelope = \"raw\"", ""},
		{"raknet", "rtype", "allow_lossy = true", ""},
		{"rudp", "riptide-2.2", `reliable = "resend"`, "ordered"}, // Riptide's notify messages have no ID
		{"mute", "riptide-2.0", "", "ordered"},
		{"mute", "deaf", "", "allow_lossy"}, // order prevents late messages
	} {
		text := string(change(t, `["raknet"]`, `["`+row.client+`"]`))
		text = strings.Replace(text, `protocol = "raknet"`, `protocol = "`+row.upstream+`"`, 1)
		text = strings.Replace(text, "[[route]]\n", "[[route]]\n"+row.says+"\n", 1)
		_, _, err := Parse("t.toml", []byte(text), known)
		faulty := ""
		if faults, ok := err.(Faults); ok {
			faulty = strings.TrimPrefix(faults[0].Key, "route[0].")
		}
		if faulty != row.faulty {
			t.Errorf("%s to %s, %q: fault at %q, want %q: %v", row.client, row.upstream, row.says, faulty, row.faulty, err)
		}
	}
}

// TestBridgeNamesEachLossOnce checks a route with two listeners that share a protocol.
func TestBridgeNamesEachLossOnce(t *testing.T) {
	text := change(t, "[[route]]", `[[listener]]
name = "second"
address = "0.0.0.0:7778"
protocols = ["raknet", "lossy"]
route = "arena"
[[listener]]
name = "elsewhere"
address = "0.0.0.0:7779"
protocols = ["bedrock"]
route = "elsewhere"
[[route]]
name = "elsewhere"
upstream = "elsewhere"
[[upstream]]
name = "elsewhere"
protocol = "raknet"
servers = ["127.0.0.1:19133"]
[[route]]
allow_lossy = false`)
	text = []byte(strings.Replace(string(text), `protocol = "raknet"
servers = ["127.0.0.1:19132"]`, `protocol = "riptide-2.2"
servers = ["127.0.0.1:19132"]`, 1))
	_, _, err := Parse("t.toml", text, known)
	check(t, err, `
t.toml:24:3: route[1].ordered: want "fast" (sent at once: rate is kept, order only while the network keeps it),
    "strict" (one message per round trip and channel: order is kept, rate is not) or allow_lossy = true:
    riptide-2.2 does not keep the order that raknet promises
t.toml:25:15: route[1].allow_lossy = false: want true, to accept losses, or another upstream protocol: lossy does
    not resend messages that riptide-2.2 promises to deliver; lossy may deliver a notify message after a newer one,
    and riptide-2.2 drops such messages
`)
}

func TestListenersThatOverlap(t *testing.T) {
	for _, row := range []struct {
		first, second string
		overlap       bool
	}{
		{"1.2.3.4:7777", "1.2.3.4:7777", true},
		{"1.2.3.4:7777", "1.2.3.4:7778", false},
		{"1.2.3.4:7777", "1.2.3.5:7777", false},
		{"0.0.0.0:7777", "1.2.3.4:7777", true},
		{"1.2.3.4:7777", "0.0.0.0:7777", true},
		{"0.0.0.0:7777", "[::1]:7777", false},
		{"[::]:7777", "[::1]:7777", true},
		{"[::]:7777", "1.2.3.4:7777", true},
		{"127.0.0.1:0", "127.0.0.1:0", false},
	} {
		text := change(t, `address = "0.0.0.0:7777"`, `address = "`+row.first+`"`)
		text = append(text, "[[listener]]\nname = \"b\"\naddress = \""+row.second+"\"\n"+
			"protocols = [\"raknet\"]\nroute = \"arena\"\n"...)
		_, _, err := Parse("t.toml", text, known)
		want := ""
		if row.overlap {
			want = `t.toml:17:11: listener[1].address = "` + row.second +
				`": want an address and port of its own; listener[0] on line 1 takes ` + row.first
		}
		check(t, err, want)
	}
}
