package decode

import (
	"cmp"
	"slices"

	"tidegate/codec/explain"
	"tidegate/codec/nethernet"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
)

// protocol is a protocol for explanations.
type protocol struct {
	*registry.Descriptor
	sniff func(datagram []byte) bool
}

// explained lists the protocols. The first one that fits a conversation is chosen, so protocols that are hard to
// confuse come first.
var explained = func() (all []protocol) {
	for _, d := range protocols.All {
		if d.Explain != nil {
			all = append(all, protocol{d, d.Default().Sniff})
		}
	}
	all = append(all, protocol{&registry.Descriptor{ // it has no codec
		Name: "nethernet", Evidence: registry.ByMagic,
		Explain: func(*explain.Memory) explain.Conversation { return nethernet.Describe() },
	}, nethernet.IsSTUN})
	slices.SortStableFunc(all, func(a, b protocol) int { return cmp.Compare(a.Evidence, b.Evidence) })
	return all
}()

// isVague reports whether many byte strings look like messages of the protocol; DNS does now and then.
func (p *protocol) isVague() bool { return p.Evidence >= registry.ByShape }

// prefix returns the size of a message's length on a stream; 0 for a protocol without streams.
func (p *protocol) prefix() int {
	if p.Stream == nil {
		return 0
	}
	return p.Stream.Prefix
}

// Protocols returns the names of all protocols.
func Protocols() (names []string) {
	for i := range explained {
		names = append(names, explained[i].Name)
	}
	return names
}

// named returns the protocol with a name of ours or of a capture, or nil. Riptide 2.1.0 to 2.2.1 are one protocol.
func named(name string) *protocol {
	d := protocols.Find(name)
	for i := range explained {
		if explained[i].Descriptor == d || explained[i].Name == name {
			return &explained[i]
		}
	}
	return nil
}
