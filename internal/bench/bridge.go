package bench

import (
	"fmt"
	"net/netip"
)

// bridgeWays are those by which a terminating route can go.
var bridgeWays = []way{
	{"tidegate", "", "auto"},
	{"tidegate-anyip", anyIP, "auto"},
}

// Bridge measures messages that cross between two protocols, or from one to the same.
func Bridge(o *Options) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	sc, err := terminating(o, "bridge", "message")
	if err != nil {
		return nil, err
	}
	from, _ := speaker(o.From) // terminating has found it
	sc.Size, sc.Sessions, sc.each = o.Size, o.Sessions, 2
	sc.Flight, sc.Burst = o.Flight, o.Burst
	sc.load = func(to netip.AddrPort, players int) (load, error) {
		l, err := newGameLoad(from, players, o.Size, to)
		if err != nil {
			return nil, err
		}
		l.crowded(o.Flight, o.Burst)
		return l, nil
	}
	return sc.run(o)
}

// Handshakes measures players who connect and leave. They say nothing, and there are as many as come.
func Handshakes(o *Options) (*Result, error) {
	o.Sessions, o.Size = 1, minSize
	if err := o.check(); err != nil {
		return nil, err
	}
	sc, err := terminating(o, "handshakes", "session")
	if err != nil {
		return nil, err
	}
	from, _ := speaker(o.From) // terminating has found it
	sc.each = 1
	sc.load = func(to netip.AddrPort, _ int) (load, error) { return newJoinLoad(from, to) }
	return sc.run(o)
}

// terminating is a scenario without its load of what Tidegate does with connections.
func terminating(o *Options, name, of string) (*scenario, error) {
	if _, err := speaker(o.From); err != nil {
		return nil, fmt.Errorf("from %w", err)
	}
	to, err := speaker(o.To)
	if err != nil {
		return nil, fmt.Errorf("to %w", err)
	}
	return &scenario{
		Result: Result{Scenario: name, Of: of, From: o.From, To: o.To},
		kinds:  terminators(o),
		server: func() (server, error) { return startGame(to) },
	}, nil
}

// terminators are what ends connections: Tidegate, and what is written on go-raknet where that is the protocol.
func terminators(o *Options) (all []kind) {
	for _, w := range bridgeWays {
		all = append(all, kind{w.name, func(o *Options, server netip.AddrPort, dir string) (*subject, error) {
			return startTidegate(w.name, dir, o, func(listen, admin netip.AddrPort) string {
				return bridgeConfig(o, w, listen, server) + common(o, w, admin)
			})
		}, nothing})
	}
	if o.From == bedrock && o.To == bedrock {
		all = append(all, kind{"go-raknet", startGoRakNet, nothing})
	}
	return all
}

// bridgeConfig is the listener and route of a bridge. What a pair leaves open is decided for rate.
func bridgeConfig(o *Options, w way, listen, to netip.AddrPort) string {
	route := ""
	if o.From != o.To {
		route = "ordered = \"fast\"\nreliable = \"resend\"\nenvelope = \"framed\"\n"
	}
	return fmt.Sprintf(`
[[listener]]
name = "bench"
address = %q
protocols = [%q]
route = "bench"
[[route]]
name = "bench"
upstream = "bench"
%s[[upstream]]
name = "bench"
protocol = %q
servers = [%q]
%s`, listen, o.From, route, o.To, to, w.upstream)
}
