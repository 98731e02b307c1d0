package scenario

import (
	"fmt"
	"net/netip"
)

// Forward measures datagrams that pass unchanged.
func Forward(o *Options) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	sc := scenario{
		Result:      Result{Scenario: "forward", Of: "datagram", Sessions: o.Sessions, Size: o.Size},
		each:        2,
		kinds:       append(relayKinds(), requested(o, others)...),
		largerKinds: largerKinds(o),
		server:      func() (server, error) { return startEcho() },
		load:        func(to netip.AddrPort, clients int) (load, error) { return newDatagramLoad(clients, o.Size, to) },
	}
	return sc.run(o)
}

// largerKinds returns direct and Tidegate's setups with Options.Grow clients. More clients and their server cost more,
// too, so direct is measured again.
func largerKinds(o *Options) (all []kind) {
	if o.Grow == 0 {
		return nil
	}
	for _, k := range relayKinds() {
		k.name = fmt.Sprintf("%s, %d", k.name, o.Grow)
		all = append(all, k)
	}
	return all
}

// relayKinds returns direct and Tidegate's setups for relayed sessions. Costs of the others are relative to direct.
func relayKinds() []kind {
	all := []kind{{"direct", startDirect, alwaysInstalled}}
	for _, w := range relaySetups {
		all = append(all, kind{w.name, func(o *Options, echo netip.AddrPort, dir string) (*subject, error) {
			return startTidegate(w.name, dir, o, func(listen, admin netip.AddrPort) string {
				return relayConfig(o, w, listen, echo) + common(o, w, admin)
			})
		}, alwaysInstalled})
	}
	return all
}
