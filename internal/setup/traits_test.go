package setup

import (
	"fmt"
	"strings"
	"testing"

	"tidegate/internal/config"
	"tidegate/internal/protocols"
)

// shared returns a listener of some protocols in front of R-Type or RakNet servers.
func shared(protocols, upstream string) []byte {
	return fmt.Appendf(nil, `
[[listener]]
name = "public"
address = "0.0.0.0:7777"
protocols = %s
route = "arena"
[[route]]
name = "arena"
upstream = "arena"
[[upstream]]
name = "arena"
protocol = %q
servers = ["127.0.0.1:19132"]
`, protocols, upstream)
}

// TestNetherNetRoutes lets NetherNet stand on each side of a route that terminates, beside Bedrock's messages.
func TestNetherNetRoutes(t *testing.T) {
	for _, row := range []struct{ clients, servers, lines, want string }{
		{`["bedrock", "nethernet"]`, "nethernet", "health = \"http\"\nidentity_key = \"key.pem\"", ""},
		{`["nethernet"]`, "bedrock", "", ""},
		{`["bedrock"]`, "nethernet", "", ""},
		{`["bedrock", "enet"]`, "nethernet", "", `listener[0].protocols[1] = "enet": want "bedrock" or "nethernet"`},
		{`["raknet"]`, "nethernet", "", `listener[0].protocols[0] = "raknet": want "bedrock" or "nethernet"`},
		{`["nethernet"]`, "enet", "", `want mode = "relay" for the route: NetherNet can be terminated only towards`},
		{`["any"]`, "nethernet", "", "an unknown protocol cannot be terminated"},
		{`["bedrock"]`, "any", "", "an unknown protocol cannot be terminated"},
		{`["bedrock"]`, "nethernet", `transport = "tcp"`, `nethernet does not`},
		{`["bedrock"]`, "nethernet", "[[route]]\nname = \"b\"\nupstream = \"arena\"\nfailover = \"hold\"",
			"a session at a NetherNet server cannot go on elsewhere"},
	} {
		_, _, err := config.Parse("t.toml", append(shared(row.clients, row.servers), row.lines...), Traits())
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s to %s, %s: %v", row.clients, row.servers, row.lines, err)
		}
	}
}

// TestProtocolsThatTakeEachOther checks the warnings about protocols on one listener that accept the same datagrams.
func TestProtocolsThatTakeEachOther(t *testing.T) {
	first := func(earlier, later, rest string) string {
		return fmt.Sprintf("listener[0].protocols[1] = %q: want one of %s and %s: "+
			"%s is listed first and gets the players of both, so %s gets %s", later, earlier, later, earlier, later, rest)
	}
	lone := func(earlier, later string) string {
		return fmt.Sprintf("listener[0].protocols[1] = %q: want the more important protocol first, or one listener for "+
			"each: "+
			"a single byte 0x00 may open both, and %s is listed first", later, earlier)
	}
	generations := func(client, inputs, server, accepted string) string {
		return fmt.Sprintf(`route[0].upstream = "arena": want the same generation of R-Type on both sides: players of `+
			`%s send %s, `+
			`and servers of %s accept only %s, so only messages from the server pass`, client, inputs, server, accepted)
	}
	for _, c := range []struct{ protocols, upstream, want string }{
		{`["raknet", "bedrock"]`, "raknet", first("raknet", "bedrock", "no players")},
		{`["bedrock", "raknet"]`, "raknet", first("bedrock", "raknet", "no players")},
		{`["rtype", "rtype-0.0.1"]`, "rtype", first("rtype", "rtype-0.0.1", "no players")},
		{`["rtype-16", "rtype-32"]`, "rtype", first("rtype-16", "rtype-32", "no players")},
		{`["rtype-16", "rtype"]`, "rtype", first("rtype-16", "rtype", "only players whose first datagram differs")},
		{`["rtype-0.0.1", "rtype"]`, "rtype", lone("rtype-0.0.1", "rtype")},
		{`["rtype-0.0.1", "rtype-16"]`, "rtype-16", ""},
		{`["rtype-0.0.1", "rtype-final"]`, "rtype", first("rtype-0.0.1", "rtype-final", "no players")},
		{`["rtype-final", "rtype-0.0.1"]`, "rtype", lone("rtype-final", "rtype-0.0.1")},
		{`["rtype", "rtype-final"]`, "rtype", first("rtype", "rtype-final", "no players")},
		{`["rtype-32", "rtype-final"]`, "rtype", ""},
		{`["rtype-final"]`, "rtype-32", ""},
		{`["rtype-0.0.1"]`, "rtype-32", generations("rtype-0.0.1", "keys", "rtype-32", "updates")},
		{`["rtype-32"]`, "rtype-0.0.1", generations("rtype-32", "updates", "rtype-0.0.1", "keys")},
		{`["rtype-16"]`, "rtype-32", ""},
	} {
		_, warnings, err := config.Parse("t.toml", shared(c.protocols, c.upstream), Traits())
		var got []string
		for _, w := range warnings {
			_, text, _ := strings.Cut(w.Error(), ": ")
			got = append(got, text)
		}
		if err != nil || strings.Join(got, "; ") != c.want {
			t.Errorf("%s to %s: %v\n%s\nwant\n%s", c.protocols, c.upstream, err, strings.Join(got, "\n"), c.want)
		}
	}
}

// TestFirstDatagramsAreKnown checks that every protocol accepts the first datagram of its own clients.
func TestFirstDatagramsAreKnown(t *testing.T) {
	for _, d := range protocols.All {
		if built := d.Default(); !built.Sniff(firstDatagram(built)) {
			t.Errorf("%s does not accept its own clients", d.Name)
		}
	}
}
