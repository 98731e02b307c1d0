package config

import (
	"fmt"
	"slices"
	"strings"
)

// PongSource is the source of a listener's server list text.
type PongSource string

// Sources of the text.
const (
	PongAuto       PongSource = "auto"       // the upstream's servers in mode relay, else the protocol's own option
	PongConfigured PongSource = "configured" // the protocol's own option
	PongUpstream   PongSource = "upstream"   // the upstream's servers
)

// Choices lists the words of the configuration.
func (PongSource) Choices() []string { return choices(PongAuto, PongConfigured, PongUpstream) }

// maxPongName leaves room for the rest of a server list text.
const maxPongName = 100

// AsksServers reports whether a route's server lists show the texts of its servers.
func (r *Route) AsksServers() bool {
	return r.Pong == PongUpstream || r.Pong == PongAuto && r.Mode == Relay
}

// pong checks the answers of a route's listeners to server lists.
func (v *validator) pong(path string, r Route) {
	if len(r.PongName) > maxPongName || strings.Contains(r.PongName, ";") {
		v.fault(child(path, "pong_name"), r.PongName, fmt.Sprintf("at most %d bytes of text without semicolons", maxPongName))
	}
	if r.PongKeep <= r.PongRefresh {
		v.fault(child(path, "pong_keep"), r.PongKeep, fmt.Sprintf("longer than pong_refresh, which is %s", r.PongRefresh))
	}
	if r.Pong == PongUpstream {
		v.pongServers(child(path, "pong"), r)
	}
}

// pongServers checks that a route has servers with texts, and listeners that show them.
func (v *validator) pongServers(key string, r Route) {
	upstream := slices.IndexFunc(v.Upstreams, func(u Upstream) bool { return u.Name == r.Upstream })
	if upstream < 0 {
		return
	}
	// In a relay, the servers speak the listener's protocol.
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
