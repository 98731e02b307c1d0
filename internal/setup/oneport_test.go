package setup

import (
	"encoding/binary"
	"os"
	"slices"
	"testing"

	"tidegate/codec/codectest"
	"tidegate/internal/config"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
)

// opening is the first datagram of a captured client.
type opening struct {
	file     string
	protocol *registry.Descriptor
	datagram []byte
}

// openings reads the first client datagrams of all captures over UDP, one for each client. Streams are left out,
// because their first bytes are a length.
func openings(t *testing.T) []opening {
	t.Helper()
	var all []opening
	for _, c := range codectest.Captures(t, os.DirFS("../../codec")) {
		if !c.Stream {
			for _, client := range c.Clients() {
				if first := c.From(client, "client"); len(first) > 0 {
					all = append(all, opening{c.File, protocols.Find(c.Protocol), first[0].Datagram})
				}
			}
		}
	}
	if len(all) < 150 {
		t.Fatalf("only %d captured clients", len(all))
	}
	return all
}

// takers returns the protocols that would accept a first datagram at a listener with all protocols, in the order of
// their evidence. It omits protocols with weaker evidence than the first taker, because they never see the datagram.
func takers(datagram []byte, app uint16, listed ...string) []string {
	c := config.Default()
	c.Options["rudp"].(*protocols.RUDPSettings).AppID = app
	var all []string
	for _, name := range byEvidence(listed) {
		if len(all) > 0 && byName(name).Evidence > byName(all[0]).Evidence {
			break
		}
		if build(name, c, nil, registry.Use{}).Sniff(datagram) {
			all = append(all, name)
		}
	}
	return all
}

// alike names the protocols that accept the same new clients as another one, and that other one.
var alike = map[string]string{
	"bedrock":     "raknet",      // for a new client they are one protocol
	"rtype":       "rtype-32",    // Hello opens all dialects of the game
	"rtype-16":    "rtype-32",    // as above
	"rtype-0.0.1": "riptide-2.2", // keys are lone bytes, as the shortest Connects are
}

// everything returns a listener's list of unambiguous protocols, in an order that the evidence has to correct.
func everything() (names []string) {
	for _, d := range slices.Backward(protocols.All) {
		if alike[d.Name] == "" {
			names = append(names, d.Name)
		}
	}
	return names
}

// TestOnePortForAll checks that each first datagram of each capture has exactly one taker, the right one. raknet
// stands for bedrock too: for a new client they are one protocol.
func TestOnePortForAll(t *testing.T) {
	seen := make(map[string]bool)
	for _, o := range openings(t) {
		var app uint16
		if o.protocol == &protocols.RUDP {
			app = binary.BigEndian.Uint16(o.datagram)
		}
		want := wantTaker(o)
		seen[want] = true
		if got := takers(o.datagram, app, everything()...); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %x... goes to %v, want %s", o.file, o.datagram[:min(8, len(o.datagram))], got, want)
		}
	}
	for _, name := range everything() {
		if !seen[name] {
			t.Errorf("no capture of %s", name)
		}
	}
}

// wantTaker returns the protocol of a captured client. Captures of R-Type do not name the dialect. The last one opens
// with a lone byte.
func wantTaker(o opening) string {
	switch {
	case o.protocol != &protocols.RType:
		return o.protocol.Name
	case len(o.datagram) == 1:
		return protocols.RTypeFinal.Name
	}
	return protocols.RType32.Name
}

// TestAmbiguousInputsFollowTheConfiguration checks that the listed order decides about "up pressed" of the document's
// R-Type, which is also a Connect of Riptide 2.2.
func TestAmbiguousInputsFollowTheConfiguration(t *testing.T) {
	for _, order := range [][]string{{"rtype-0.0.1", "riptide-2.2"}, {"riptide-2.2", "rtype-0.0.1"}} {
		if got := takers([]byte{2}, 0, order...); !slices.Equal(got, order) {
			t.Errorf("listed as %v: asked as %v", order, got)
		}
	}
}
