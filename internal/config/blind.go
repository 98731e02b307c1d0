package config

import (
	"slices"
	"strings"
)

// warnRelayFilter warns about a message rule for listeners whose routes relay datagrams and so never see messages.
func (v *validator) warnRelayFilter(path string, f Filter) {
	var relayed []string
	for _, l := range v.Listeners {
		about := len(f.Listeners) == 0 || slices.Contains(f.Listeners, l.Name)
		if about && slices.ContainsFunc(v.Routes, func(r Route) bool { return r.Name == l.Route && r.Mode == Relay }) {
			relayed = append(relayed, `"`+l.Name+`"`)
		}
	}
	if len(relayed) > 0 {
		v.warn(child(path, "listeners"), f.Listeners, `listeners of routes with mode = "terminate": a relay sees no messages, so `+
			"this rule has no effect on "+strings.Join(relayed, ", "))
	}
}
