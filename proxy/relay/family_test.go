package relay

import (
	"testing"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
	"tidegate/internal/testkit/heavy"
)

// member is a protocol with its transport.
type member struct {
	codec.Protocol
	transport Transport
}

// String returns the protocol's name, with its transport unless that is UDP.
func (m member) String() string {
	if m.transport.Stream {
		return m.Spec().Name + " over tcp"
	}
	return m.Spec().Name
}

// testApp is the application ID of RUDP in these tests. Some of them write its packets byte by byte.
const testApp = 7

// testSeed makes proofs of address.
var testSeed = [32]byte{1}

// named makes a protocol with options for tests: sessions survive bad weather, and addresses can be proved. R-Type
// has a Seed only if use has one. The tests' game servers use the same protocol, and real ones demand no proof.
func named(name string, use registry.Use) codec.Protocol {
	d := protocols.Find(name)
	options := d.Options()
	if d.Calm != nil {
		d.Calm(options)
	}
	if o, ok := options.(*protocols.RUDPSettings); ok {
		o.AppID = testApp
		o.Rate = 100 // as games do; the time here is virtual
	}
	if d.Table != "rtype" {
		use.Seed = testSeed
	}
	return d.New(options, use)
}

// udpMembers returns every protocol over UDP except the keys of but. The values of but are reasons.
func udpMembers(but map[string]string) (all []member) {
	for _, d := range protocols.All {
		if but[d.Name] == "" {
			all = append(all, member{Protocol: named(d.Name, registry.Use{})})
		}
	}
	return all
}

// members returns every protocol over each of its transports, except the keys of but.
func members(but map[string]string) []member {
	all := udpMembers(but)
	for _, d := range protocols.All {
		if d.Stream != nil && but[d.Name] == "" {
			all = append(all, streamed(d.Name))
		}
	}
	return all
}

// isLeftToHeavy reports whether a pair plays only where heavy tests run. Each protocol always plays with itself, and
// with servers of Riptide 2.2.
func isLeftToHeavy(client, server member) bool {
	return !heavy.Runs() && server.Spec().Name != "riptide-2.2" && server.Spec().Name != client.Spec().Name
}

// streamed makes a protocol over TCP.
func streamed(name string) member {
	transport := Transport{Stream: true, Prefix: netio.PrefixOf(protocols.Find(name).Stream.Prefix)}
	return member{named(name, registry.Use{Stream: true}), transport}
}

// oneDialect excludes R-Type's other dialects from pairs of all protocols.
var oneDialect = map[string]string{
	"rtype":       "finds out what the peer speaks, and speaks rtype-32 to itself",
	"rtype-0.0.1": "its clients can only press keys: arcade_test.go",
	"rtype-16":    "differs from rtype-32 in the width of entities: codec/rtype",
	"rtype-final": "is bridged by rtype_rate_test.go and rtype_game_test.go",
}

// noRType excludes R-Type from tests in which a client must connect to a server that does not send first.
var noRType = map[string]string{
	"rtype":       "its client is connected when it has heard of an entity, or is pinged after 10 s",
	"rtype-0.0.1": "as rtype",
	"rtype-16":    "as rtype",
	"rtype-32":    "as rtype",
	"rtype-final": "as rtype",
}

// TestExceptionsExist asserts that each excluded name is a protocol.
func TestExceptionsExist(t *testing.T) {
	for _, but := range []map[string]string{oneDialect, noRType} {
		for name := range but {
			if d := protocols.Find(name); d == nil || d.Name != name {
				t.Errorf("%q is no protocol", name)
			}
		}
	}
}

// strongest returns the strongest mode of a protocol.
func strongest(p codec.Protocol) codec.Mode {
	for _, mode := range []codec.Mode{codec.ReliableOrdered, codec.Reliable, codec.Notify, codec.UnreliableSequenced} {
		if p.Spec().Modes.Has(mode) {
			return mode
		}
	}
	return codec.Unreliable
}

// reliableMembers returns the protocols that deliver every message.
func reliableMembers() (all []member) {
	for _, m := range udpMembers(nil) {
		if m.Spec().Modes.AnyReliable() {
			all = append(all, m)
		}
	}
	return all
}
