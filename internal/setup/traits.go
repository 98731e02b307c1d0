package setup

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/config"
	"tidegate/internal/protocols"
)

// Traits returns the facts about each protocol that the configuration checks need.
func Traits() map[string]config.Traits {
	all := make(map[string]config.Traits)
	for _, d := range known() {
		built := d.Default()
		spec := built.Spec()
		_, pings := built.(codec.Pinger)
		all[d.Name] = config.Traits{
			Ordered:   spec.Modes.Has(codec.ReliableOrdered),
			Sequenced: spec.Modes.Has(codec.UnreliableSequenced),
			Reliable:  spec.Modes.AnyReliable(),
			Reports:   spec.Modes.Has(codec.Notify),
			IDs:       spec.IDs == codec.IDBeside,
			FirstByte: spec.IDs == codec.IDFirstByte,
			Modes:     spec.Modes,
			Channels:  spec.Channels,
			Joins:     spec.Joins,
			Closed:    spec.Closed,
			Pings:     pings,
			Opaque:    d == &opaque || d == &edge,
			Edge:      d == &edge,
			Stream:    d.Stream != nil,
			Inputs:    d.Inputs,
			Types:     d.Types,
			Openers:   spec.LoneOpenings,
			Server:    true,
			Client:    true,
		}
	}
	addOverlaps(all)
	return all
}

// addOverlaps records for each protocol the other protocols whose new clients it also accepts. A listener asks
// protocols with stronger evidence first, so only protocols with the same evidence are compared.
func addOverlaps(all map[string]config.Traits) {
	for _, d := range protocols.All {
		accepted := make(map[string]bool)
		for _, other := range protocols.All {
			if sniff := d.Default().Sniff; d != other && d.Evidence == other.Evidence && sniff(firstDatagram(other.Default())) {
				accepted[other.Name] = takesAll(sniff, all[other.Name].Openers)
			}
		}
		t := all[d.Name]
		t.Accepts = accepted
		all[d.Name] = t
	}
}

// firstDatagram returns a client's first datagram of a protocol.
func firstDatagram(p codec.Protocol) []byte {
	start := time.Unix(0, 0)
	server := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 1)
	datagram, _ := p.Dial(start, server, codec.Hello{}).Transmit(start, make([]byte, 0, codec.MaxDatagram))
	return datagram
}

// takesAll reports whether sniff accepts each of the bytes, alone in a datagram.
func takesAll(sniff func([]byte) bool, openers codec.ByteSet) bool {
	for b := range 256 {
		if openers.Has(byte(b)) && !sniff([]byte{byte(b)}) {
			return false
		}
	}
	return true
}
