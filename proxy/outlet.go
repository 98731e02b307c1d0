package proxy

import (
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// outlet sends a Relay's datagrams: to clients, to servers along paths, and to strangers within a budget.
type outlet struct {
	Sockets
	tap      *tap // between the Relay and the loop's sockets; nil: no capture runs
	paths    *paths
	drops    *dropLog
	counters *stats.Counters
	dirty    *marked

	replies   *ratelimit.Budget // for answers to strangers that are no larger than their questions
	allowance *Allowance        // for clients without proof of address; shared by all Relays
	unproved  *Unproved         // of the settings
	scratch   []byte            // for datagrams to trusted proxies
}
