package config

import (
	"slices"
	"strings"

	"tidegate/internal/protocols"
)

// unheard adds what is lost where nothing that players can say is anything that the servers take.
func (v *validator) unheard(found *findings, client, upstream string) {
	says, takes := v.inputs(client), v.inputs(upstream)
	if says == nil || takes == nil || slices.ContainsFunc(says, func(input string) bool { return slices.Contains(takes, input) }) {
		return
	}
	found.unheard = add(found.unheard, "players of "+client+" say "+strings.Join(says, " and ")+
		" and servers of "+upstream+" take "+strings.Join(takes, " and ")+
		" only, so that nothing gets through but what the server says")
}

// inputs names what players of a protocol can say; nil: anything.
func (v *validator) inputs(protocol string) []string {
	inputs := v.known[protocol].Inputs
	d := protocols.Find(protocol)
	if inputs == nil || d == nil {
		return nil
	}
	return inputs(v.Options.Of(d))
}
