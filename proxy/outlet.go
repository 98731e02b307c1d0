package proxy

import (
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// outlet sends a Relay's datagrams: to clients, to servers along paths, and to strangers within a budget.
type outlet struct {
	Sockets
	tap      *tap // in front of the loop's sockets; nil: nothing is captured
	paths    *paths
	drops    *dropLog
	counters *stats.Counters
	dirty    *marked

	replies   *ratelimit.Budget // for answers to strangers that are no larger than their questions
	allowance *Allowance        // for clients without proof of address; its Relay's siblings have the same
	unproved  *Unproved         // of the settings
	scratch   []byte            // for datagrams to trusted proxies
}
