package config

import (
	"fmt"
	"slices"
	"strings"
)

// maxPongName leaves room for the rest of a server list text.
const maxPongName = 100

// AsksServers reports whether a route's server lists show what the servers say.
func (r *Route) AsksServers() bool {
	return r.Pong == PongUpstream || r.Pong == PongAuto && r.Mode == Relay
}

// pong checks what a route's listeners answer to server lists.
func (v *validator) pong(path string, r Route) {
	if len(r.PongName) > maxPongName || strings.Contains(r.PongName, ";") {
		v.fault(child(path, "pong_name"), r.PongName, fmt.Sprintf("at most %d bytes of text without semicolons", maxPongName))
	}
	within(v.report, child(path, "pong_refresh"), r.PongRefresh, milliseconds(100), seconds(60))
	within(v.report, child(path, "pong_keep"), r.PongKeep, seconds(1), seconds(86_400))
	if r.PongKeep <= r.PongRefresh {
		v.fault(child(path, "pong_keep"), r.PongKeep, fmt.Sprintf("longer than pong_refresh, which is %s", r.PongRefresh))
	}
	if r.Pong == PongUpstream {
		v.listed(child(path, "pong"), r)
	}
}

// listed checks that a route has servers to ask for their texts, and someone to tell them to.
func (v *validator) listed(key string, r Route) {
	upstream := slices.IndexFunc(v.Upstreams, func(u Upstream) bool { return u.Name == r.Upstream })
	if upstream < 0 {
		return
	}
	// What a relay's listener speaks its servers speak, too.
	if name := v.Upstreams[upstream].Protocol; v.known[name].Client && !v.known[name].Pings && !v.known[name].Opaque {
		v.fault(key, r.Pong, fmt.Sprintf("%q: %s servers have no text for server lists", PongConfigured, name))
		return
	}
	routed := false
	for _, l := range v.Listeners {
		if l.Route == r.Name {
			routed = true
			if slices.ContainsFunc(l.Protocols, func(name string) bool { return v.known[name].Pings }) {
				return
			}
		}
	}
	if routed {
		v.warn(key, r.Pong, fmt.Sprintf("%q: no protocol of the route's listeners has server lists", PongConfigured))
	}
}
