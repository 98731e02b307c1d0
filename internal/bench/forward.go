package bench

import (
	"fmt"
	"net/netip"
)

// Forward measures datagrams that are passed on as they are.
func Forward(o *Options) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	sc := scenario{
		Result: Result{Scenario: "forward", Of: "datagram", Sessions: o.Sessions, Size: o.Size},
		each:   2,
		kinds:  append(relays(), asked(o, others)...),
		grown:  grown(o),
		server: func() (server, error) { return startEcho() },
		load:   func(to netip.AddrPort, clients int) (load, error) { return newDatagramLoad(clients, o.Size, to) },
	}
	return sc.run(o)
}

// grown are Tidegate's ways once more, with more clients.
func grown(o *Options) (all []kind) {
	if o.Grow == 0 {
		return nil
	}
	for _, k := range relays()[1:] {
		k.name = fmt.Sprintf("%s, %d", k.name, o.Grow)
		all = append(all, k)
	}
	return all
}

// relays are Tidegate's ways of passing datagrams on. Direct is before them: costs are told beyond its.
func relays() []kind {
	all := []kind{{"direct", startDirect, nothing}}
	for _, w := range ways {
		all = append(all, kind{w.name, func(o *Options, echo netip.AddrPort, dir string) (*subject, error) {
			return startTidegate(w.name, dir, o, func(listen, admin netip.AddrPort) string {
				return relayConfig(o, w, listen, echo) + common(o, w, admin)
			})
		}, nothing})
	}
	return all
}
