package codectest

import (
	"math/rand/v2"

	"tidegate/codec"
	"tidegate/internal/testkit/allocs"
)

// checkProtocol checks a Protocol's Spec. It also checks that Sniff does not allocate and refuses an empty datagram.
func checkProtocol(t tb, c *Config) {
	simulate(t, "protocol", func(r *report) {
		server, client := c.New(1)
		for _, p := range []codec.Protocol{server, client} {
			if p.Spec().Name == "" || len(c.modes) == 0 {
				r.Errorf("protocol %q with modes %v", p.Spec().Name, c.modes)
			}
			if (p.Spec().IDs == codec.IDBeside) != (c.IDs != 0) {
				r.Errorf("Spec.IDs is %d, but Config.IDs names the modes %b", p.Spec().IDs, c.IDs)
			}
		}
		if server.Sniff(nil) {
			r.Errorf("Sniff takes an empty datagram")
		}
		checkLoneOpenings(r, server)
		h := hostileSource{rng: rand.New(rand.NewPCG(1, 1))}
		datagrams := make([][]byte, hostileDatagrams)
		for i := range datagrams {
			datagrams[i] = h.random()
		}
		allocations := allocs.PerRun(1, func() {
			for _, datagram := range datagrams {
				server.Sniff(datagram)
			}
		})
		if allocations > 0 {
			r.Errorf("Sniff allocates: %v for %d datagrams", allocations, len(datagrams))
		}
	})
}
