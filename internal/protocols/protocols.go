// Package protocols is the list of the protocols that Tidegate speaks. To add one, write its codec and a file here
// with its Descriptor.
package protocols

import (
	"strings"

	"tidegate/internal/registry"
)

// All lists every protocol. Of protocols that know a new client by the same evidence, an earlier one is the more
// likely.
var All = []*registry.Descriptor{
	&RakNet, &Bedrock, &Riptide22, &Riptide20, &RUDP, &ENet, &RType, &RTypeDocument, &RType16, &RType32, &RTypeFinal,
}

// Find returns the protocol of a name, an alias or a version of one of them, or nil: "riptide-2.1.0" is
// "riptide-2.2".
func Find(name string) *registry.Descriptor {
	for _, d := range All {
		if name == d.Name {
			return d
		}
	}
	for _, d := range All {
		for _, of := range append([]string{d.Name}, d.Aliases...) {
			if name == of || strings.HasPrefix(name, of+".") {
				return d
			}
		}
	}
	return nil
}

// Tables returns one protocol for each table of options, in the order of All.
func Tables() []*registry.Descriptor {
	var all []*registry.Descriptor
	seen := make(map[string]bool)
	for _, d := range All {
		if !seen[d.Table] {
			seen[d.Table] = true
			all = append(all, d)
		}
	}
	return all
}
