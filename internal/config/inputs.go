package config

import "strings"

// Inputs are what players of a dialect of R-Type can say, and its servers take.
type Inputs uint8

// Inputs of R-Type. docs/protocols/rtype.md#dialects
const (
	Keys Inputs = 1 << iota
	Updates
)

// String lists the inputs.
func (i Inputs) String() string {
	var words []string
	for bit, word := range []string{"keys", "updates"} {
		if i&(1<<bit) != 0 {
			words = append(words, word)
		}
	}
	return strings.Join(words, " and ")
}

// unheard adds what is lost where nothing that players can say is anything that the servers take.
func (v *validator) unheard(found *findings, client, upstream string) {
	says, takes := v.known[client].Inputs, v.known[upstream].Inputs
	if says == nil || takes == nil || says(v.RType.Era)&takes(v.RType.Era) != 0 {
		return
	}
	found.unheard = add(found.unheard, "players of "+client+" say "+says(v.RType.Era).String()+
		" and servers of "+upstream+" take "+takes(v.RType.Era).String()+
		" only, so that nothing gets through but what the server says")
}
