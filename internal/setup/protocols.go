package setup

import (
	"cmp"
	"slices"
	"time"

	"tidegate/codec"
	"tidegate/internal/config"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
	"tidegate/proxy"
)

// Opaque is the name of the protocol that stands for any, to be relayed and not terminated.
const Opaque = "any"

// opaque is no codec, and so not in the list of protocols.
var opaque = registry.Descriptor{
	Name:     Opaque,
	Evidence: registry.ByNothing,
	Options:  func() any { return nil },
	New:      func(any, registry.Use) codec.Protocol { return proxy.Any },
}

// known lists all that a listener or an upstream may name.
func known() []*registry.Descriptor { return append(slices.Clone(protocols.All), &opaque) }

// byName returns the protocol of a name that the configuration has been checked for.
func byName(name string) *registry.Descriptor {
	if name == Opaque {
		return &opaque
	}
	return protocols.Find(name)
}

// build makes the protocol of a name.
func build(name string, c *config.Config, use registry.Use) codec.Protocol {
	use.GUID, use.Seed = secrets.GUID, secrets.Seed
	use.Handshake = time.Duration(c.Limits.HandshakeTimeout)
	d := byName(name)
	return d.New(c.Options.Of(d), use)
}

// surestFirst orders the names of a listener's protocols so that none is taken for another that knows it less surely.
func surestFirst(names []string) []string {
	sorted := slices.Clone(names)
	slices.SortStableFunc(sorted, func(a, b string) int { return cmp.Compare(byName(a).Evidence, byName(b).Evidence) })
	return sorted
}
