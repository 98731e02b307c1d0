package setup

import (
	"strings"

	"tidegate/codec"
	"tidegate/codec/riptide"
	"tidegate/internal/config"
)

// Traits are what the configuration must know of each protocol.
func Traits() map[string]config.Traits {
	all := make(map[string]config.Traits, len(protocols))
	for _, p := range protocols {
		built := p.build(config.Default(), use{})
		modes := built.Spec().Modes
		_, pings := built.(codec.Pinger)
		t := config.Traits{
			Ordered:   modes.Has(codec.ReliableOrdered),
			Sequenced: modes.Has(codec.UnreliableSequenced),
			Reliable:  modes.Has(codec.Reliable) || modes.Has(codec.ReliableOrdered),
			Reports:   modes.Has(codec.Notify),
			IDs:       built.Spec().IDs == codec.IDBeside,
			Merges:    built.Spec().Joins,
			Own:       built.Spec().Closed,
			Pings:     pings,
			Opaque:    p.name == Opaque,
			Stream:    streams(p.name),
			Inputs:    inputs[p.name],
			Server:    true,
			Client:    true,
		}
		if !t.Opaque { // which comes last of all, and so takes nobody's
			t.Openers = openers(built)
		}
		if version, ok := dialects[p.name]; ok {
			t.Types = func(name string) string { return typeWanted(name, version, p.name) }
		}
		all[p.name] = t
	}
	overlaps(all)
	return all
}

// openers are the bytes that, alone in a datagram, open a session of a protocol.
func openers(p codec.Protocol) (set [256]bool) {
	for b := range set {
		set[b] = p.Sniff([]byte{byte(b)})
	}
	return set
}

// dialects are the protocols between which payloads are translated.
var dialects = map[string]riptide.Version{"riptide-2.0": riptide.V20, "riptide-2.2": riptide.V22}

// typeWanted says what a type of value should be for a dialect to have it; nothing if it does.
func typeWanted(name string, version riptide.Version, dialect string) string {
	schema, err := riptide.ParseSchema([]string{name})
	if err != nil {
		_, want, _ := strings.Cut(err.Error(), ": want ") // what comes before names the type, as the fault does
		return want
	}
	if schema.Check(version) != nil {
		return "a type that " + dialect + " has"
	}
	return ""
}
