package setup

import (
	"fmt"
	"strings"
	"testing"

	"tidegate/internal/config"
	"tidegate/internal/protocols"
)

// shared is a listener of some protocols in front of servers of R-Type or of RakNet.
func shared(protocols, upstream, more string) []byte {
	return fmt.Appendf(nil, `%s
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
`, more, protocols, upstream)
}

// TestProtocolsThatTakeEachOther: what check says of protocols on one listener that know the same datagrams.
func TestProtocolsThatTakeEachOther(t *testing.T) {
	for _, c := range []struct{ protocols, upstream, more, want string }{
		{`["raknet", "bedrock"]`, "raknet", "", `listener[0].protocols[1] = "bedrock": want one of raknet and bedrock: ` +
			`raknet comes first and gets the players of both, and bedrock none`},
		{`["bedrock", "raknet"]`, "raknet", "", `listener[0].protocols[1] = "raknet": want one of bedrock and raknet: ` +
			`bedrock comes first and gets the players of both, and raknet none`},
		{`["rtype", "rtype-0.0.1"]`, "rtype", "", `listener[0].protocols[1] = "rtype-0.0.1": want one of rtype and rtype-0.0.1: ` +
			`rtype comes first and gets the players of both, and rtype-0.0.1 none`},
		{`["rtype-16", "rtype-32"]`, "rtype", "", `listener[0].protocols[1] = "rtype-32": want one of rtype-16 and rtype-32: ` +
			`rtype-16 comes first and gets the players of both, and rtype-32 none`},
		{`["rtype-16", "rtype"]`, "rtype", "", `listener[0].protocols[1] = "rtype": want one of rtype-16 and rtype: ` +
			`rtype-16 comes first and gets the players of both, and rtype only those who open otherwise`},
		{`["rtype-0.0.1", "rtype"]`, "rtype", "", `listener[0].protocols[1] = "rtype": want the protocol that matters more ` +
			`first, or a listener each: a lone byte 0x00 may open both, and rtype-0.0.1, which comes first, gets it`},
		{`["rtype-0.0.1", "rtype-16"]`, "rtype-16", "", ""},
		{`["rtype-0.0.1", "rtype-final"]`, "rtype", "", `listener[0].protocols[1] = "rtype-final": want one of rtype-0.0.1 ` +
			`and rtype-final: rtype-0.0.1 comes first and gets the players of both, and rtype-final none`},
		{`["rtype-final", "rtype-0.0.1"]`, "rtype", "", `listener[0].protocols[1] = "rtype-0.0.1": want the protocol that ` +
			`matters more first, or a listener each: a lone byte 0x00 may open both, and rtype-final, which comes first, gets it`},
		{`["rtype", "rtype-final"]`, "rtype", "", `listener[0].protocols[1] = "rtype-final": want one of rtype and rtype-final: ` +
			`rtype comes first and gets the players of both, and rtype-final none`},
		{`["rtype-32", "rtype-final"]`, "rtype", "", ""},
		{`["rtype-final"]`, "rtype-32", "", ""},
		{`["rtype-0.0.1"]`, "rtype-32", "", `route[0].upstream = "arena": want R-Type of one age on both sides: players of ` +
			`rtype-0.0.1 say keys and servers of rtype-32 take updates only, so that nothing gets through but ` +
			`what the server says`},
		{`["rtype-32"]`, "rtype-0.0.1", "", `route[0].upstream = "arena": want R-Type of one age on both sides: players of ` +
			`rtype-32 say updates and servers of rtype-0.0.1 take keys only, so that nothing gets through but ` +
			`what the server says`},
		{`["rtype-0.0.1"]`, "rtype-32", `rtype.era = "early"`, ""},
		{`["rtype-16"]`, "rtype-32", "", ""},
	} {
		_, warnings, err := config.Parse("t.toml", shared(c.protocols, c.upstream, c.more), Traits())
		var got []string
		for _, w := range warnings {
			_, text, _ := strings.Cut(w.Error(), ": ")
			got = append(got, text)
		}
		if err != nil || strings.Join(got, "; ") != c.want {
			t.Errorf("%s to %s %s: %v\n%s\nwant\n%s", c.protocols, c.upstream, c.more, err, strings.Join(got, "\n"), c.want)
		}
	}
}

// TestFirstDatagramsAreKnown: every protocol takes what its own clients open with.
func TestFirstDatagramsAreKnown(t *testing.T) {
	for _, d := range protocols.All {
		if built := d.Default(); !built.Sniff(firstDatagram(built)) {
			t.Errorf("%s does not know its own clients", d.Name)
		}
	}
}
