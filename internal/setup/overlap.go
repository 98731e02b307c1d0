package setup

import (
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/config"
	"tidegate/internal/protocols"
)

// overlaps notes in the traits of each protocol whose newcomers it takes for its own. Of two that know theirs by other
// evidence the listener asks the surer one first, so only those of one kind are compared.
func overlaps(all map[string]config.Traits) {
	for _, d := range protocols.All {
		takes := make(map[string]bool)
		for _, other := range protocols.All {
			if sniff := d.Default().Sniff; d != other && d.Evidence == other.Evidence && sniff(firstDatagram(other.Default())) {
				takes[other.Name] = takesAll(sniff, all[other.Name].Openers)
			}
		}
		t := all[d.Name]
		t.Takes = takes
		all[d.Name] = t
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
func takesAll(sniff func([]byte) bool, openers codec.ByteSet) bool {
	for b := range 256 {
		if openers.Has(byte(b)) && !sniff([]byte{byte(b)}) {
			return false
		}
	}
	return true
}
