package config

import (
	"slices"
	"strings"

	"tidegate/internal/protocols"
)

// checkInputs adds a finding if the servers accept none of the inputs that players can send.
func (v *validator) checkInputs(found *findings, client, upstream string) {
	says, takes := v.inputs(client), v.inputs(upstream)
	if says == nil || takes == nil || slices.ContainsFunc(says, func(input string) bool { return slices.Contains(takes, input) }) {
		return
	}
	found.inputs = addOnce(found.inputs, "players of "+client+" send "+strings.Join(says, " and ")+
		", and servers of "+upstream+" accept only "+strings.Join(takes, " and ")+
		", so only messages from the server pass")
}

// inputs returns the names of a protocol's inputs. nil means any input.
func (v *validator) inputs(protocol string) []string {
	inputs := v.known[protocol].Inputs
	d := protocols.Find(protocol)
	if inputs == nil || d == nil {
		return nil
	}
	return inputs(v.Options.Of(d))
}
