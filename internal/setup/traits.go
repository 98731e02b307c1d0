package setup

import (
	"tidegate/codec"
	"tidegate/internal/config"
)

// Traits are what the configuration must know of each protocol.
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
			Joins:     spec.Joins,
			Closed:    spec.Closed,
			Pings:     pings,
			Opaque:    d == &opaque,
			Stream:    d.Stream != nil,
			Inputs:    d.Inputs,
			Types:     d.Types,
			Openers:   spec.LoneOpenings,
			Server:    true,
			Client:    true,
		}
	}
	overlaps(all)
	return all
}
