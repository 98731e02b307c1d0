package decode

import (
	"cmp"
	"slices"

	"tidegate/codec"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
)

// protocol is one that captures are explained in.
type protocol struct {
	*registry.Descriptor
	codec codec.Protocol
}

// explained lists them. Where a conversation could be of several, the first is meant: those that are hardest to mistake for
// another come first.
var explained = func() (all []protocol) {
	for _, d := range protocols.All {
		if d.Describe != nil {
			all = append(all, protocol{d, d.Default()})
		}
	}
	slices.SortStableFunc(all, func(a, b protocol) int { return cmp.Compare(a.Evidence, b.Evidence) })
	return all
}()

// isVague reports whether many bytes could be a message of the protocol: DNS looks like it now and then.
func (p *protocol) isVague() bool { return p.Evidence >= registry.ByShape }

// prefix is the size of the number before each message on a stream; 0 where the protocol has no streams.
func (p *protocol) prefix() int {
	if p.Stream == nil {
		return 0
	}
	return p.Stream.Prefix
}

// Protocols are the names of all protocols.
func Protocols() (names []string) {
	for i := range explained {
		names = append(names, explained[i].Name)
	}
	return names
}

// named is the protocol that a name of ours or of a capture means, or nil: Riptide 2.1.0 to 2.2.1 are one.
func named(name string) *protocol {
	d := protocols.Find(name)
	for i := range explained {
		if explained[i].Descriptor == d {
			return &explained[i]
		}
	}
	return nil
}
