package registry

import (
	"fmt"
	"slices"
)

// PressesKeys reports whether clients can only press keys.
func (d *Descriptor) PressesKeys() bool { return slices.Equal(d.Inputs, []string{"keys"}) }

// ShareInputs returns an error if a server of one protocol understands nothing that clients of the other can say.
func ShareInputs(from, to *Descriptor) error {
	says, takes := from.Inputs, to.Inputs
	shared := func(one string) bool { return slices.Contains(takes, one) }
	if says == nil || takes == nil || slices.ContainsFunc(says, shared) {
		return nil
	}
	keys, others := from.Name, to.Name
	if !from.PressesKeys() {
		keys, others = others, keys
	}
	return fmt.Errorf("%s to %s: the clients have no input in common: clients of %s only press keys, and clients of %s "+
		"only send requests and updates (docs/protocols/rtype.md#dialects)", from.Name, to.Name, keys, others)
}
