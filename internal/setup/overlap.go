package setup

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/config"
)

// overlaps notes in the traits of each protocol whose newcomers it takes for its own. Of two that know theirs by other
// evidence the listener asks the surer one first, so only those of one kind are compared.
func overlaps(all map[string]config.Traits) {
	for _, p := range protocols {
		takes := make(map[string]bool)
		for _, other := range protocols {
			if p.name == other.name || p.evidence != other.evidence || p.name == Opaque || other.name == Opaque {
				continue
			}
			sniff := p.build(config.Default(), use{}).Sniff
			if !sniff(firstDatagram(other.build(config.Default(), use{}))) {
				continue
			}
			takes[other.name] = takesAll(sniff, all[other.name].Openers)
		}
		t := all[p.name]
		t.Takes = takes
		all[p.name] = t
	}
}

// firstDatagram is what a client of a protocol opens with.
func firstDatagram(p codec.Protocol) []byte {
	start := time.Unix(0, 0)
	server := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 1)
	datagram, _ := p.Dial(start, server, codec.Hello{}).Transmit(start, make([]byte, 0, codec.MaxDatagram))
	return datagram
}

// takesAll reports whether each of the bytes, alone in a datagram, is taken too.
func takesAll(sniff func([]byte) bool, openers [256]bool) bool {
	for b, opens := range openers {
		if opens && !sniff([]byte{byte(b)}) {
			return false
		}
	}
	return true
}

// inputs are what players of R-Type's dialects can say. docs/protocols/rtype.md#dialects
var inputs = map[string]func(config.Era) config.Inputs{
	"rtype-0.0.1": func(config.Era) config.Inputs { return config.Keys },
	"rtype-16":    func(e config.Era) config.Inputs { return aged(e, config.EraEarly) },
	"rtype-32":    func(e config.Era) config.Inputs { return aged(e, config.EraLate) },
	"rtype-final": func(config.Era) config.Inputs { return config.Updates },
}

// aged are the inputs of the game's own dialects.
func aged(set, usual config.Era) config.Inputs {
	if set == config.EraAuto {
		set = usual
	}
	if set == config.EraLate {
		return config.Updates
	}
	return config.Keys | config.Updates
}
