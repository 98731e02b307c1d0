package config

import (
	"slices"
	"strings"
)

// blind warns of a rule about messages that is about listeners whose routes see none.
func (v *validator) blind(path string, f Filter) {
	var relayed []string
	for _, l := range v.Listeners {
		about := len(f.Listeners) == 0 || slices.Contains(f.Listeners, l.Name)
		if about && slices.ContainsFunc(v.Routes, func(r Route) bool { return r.Name == l.Route && r.Mode == Relay }) {
			relayed = append(relayed, `"`+l.Name+`"`)
		}
	}
	if len(relayed) > 0 {
		v.warn(child(path, "listeners"), f.Listeners, `listeners of routes that terminate: mode = "relay" sees no messages, so `+
			"this rule does nothing on "+strings.Join(relayed, ", "))
	}
}
