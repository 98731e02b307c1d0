package scenario

import (
	"fmt"
	"net/netip"
)

// bridgeSetups are Tidegate's setups for routes that terminate.
var bridgeSetups = []setup{
	{"tidegate", "", "auto"},
	{"tidegate-source-prefix", anyIP, "auto"},
}

// Bridge measures messages that cross from one protocol to another, or to the same.
func Bridge(o *Options) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	sc, err := terminating(o, "bridge", "message")
	if err != nil {
		return nil, err
	}
	from, _ := protocolNamed(o.From) // terminating has checked the name
	server, _ := protocolNamed(o.To)
	sc.addFloor(o, startC)
	sc.Size, sc.Sessions, sc.each = o.Size, o.Sessions, 2
	sc.Flight, sc.Burst = o.Flight, o.Burst
	sc.load = func(to netip.AddrPort, clients int) (load, error) {
		l, err := newGameLoad(from, server, clients, o.Size, to)
		if err != nil {
			return nil, err
		}
		l.setLimits(o.Flight, o.Burst)
		return l, nil
	}
	return sc.run(o)
}

// Handshakes measures clients that connect and leave, as many as possible. They send no messages.
func Handshakes(o *Options) (*Result, error) {
	o.Sessions, o.Size = 1, minSize
	if err := o.check(); err != nil {
		return nil, err
	}
	sc, err := terminating(o, "handshakes", "session")
	if err != nil {
		return nil, err
	}
	from, _ := protocolNamed(o.From) // terminating has checked the name
	sc.addFloor(o, startClosingC)
	sc.each = 1
	sc.load = func(to netip.AddrPort, _ int) (load, error) { return newJoinLoad(from, to) }
	return sc.run(o)
}

// Join measures how long a client needs to get in, over a path with a delay and losses, beside a direct connection over
// the same path. The server of bedrock is go-raknet's.
func Join(o *Options) (*Result, error) {
	o.Sessions, o.Size = 1, minSize
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Rate <= 0 {
		return nil, fmt.Errorf("%d joins a second: %w: want at least 1", o.Rate, ErrOptions)
	}
	sc, err := terminating(o, "join", "session")
	if err != nil {
		return nil, err
	}
	from, _ := protocolNamed(o.From) // terminating has checked the name
	sc.each, sc.overDirect = 1, true
	sc.Path, sc.PathLoss = o.Path, o.Loss
	if o.From == o.To {
		sc.kinds = append([]kind{{"direct", startDirect, alwaysInstalled}}, sc.kinds...)
	}
	if o.To == bedrock {
		sc.server = func() (server, error) { return startGoRakNetGame() }
	}
	sc.load = func(to netip.AddrPort, _ int) (load, error) { return newPathLoad(o, from, to) }
	return sc.run(o)
}

// terminating returns a scenario of routes that terminate, without its load.
func terminating(o *Options, name, item string) (*scenario, error) {
	if _, err := protocolNamed(o.From); err != nil {
		return nil, fmt.Errorf("from %w", err)
	}
	to, err := protocolNamed(o.To)
	if err != nil {
		return nil, fmt.Errorf("to %w", err)
	}
	return &scenario{
		Result: Result{Scenario: name, Of: item, From: o.From, To: o.To},
		kinds:  terminatingKinds(o),
		server: func() (server, error) { return startGame(to) },
	}, nil
}

// terminatingKinds returns Tidegate's setups, and the go-raknet proxy if both protocols are its own.
func terminatingKinds(o *Options) (all []kind) {
	for _, w := range bridgeSetups {
		all = append(all, kind{w.name, func(o *Options, server netip.AddrPort, dir string) (*subject, error) {
			return startTidegate(w.name, dir, o, func(listen, admin netip.AddrPort) string {
				return bridgeConfig(o, w, listen, server) + common(o, w, admin)
			})
		}, alwaysInstalled})
	}
	if o.From == bedrock && o.To == bedrock {
		all = append(all, kind{"go-raknet", startGoRakNet, alwaysInstalled})
	}
	return all
}

// addFloor adds the least that a program in between can cost: the C program that moves the datagrams of clients and
// server, which then speak to each other. Between different protocols there is none.
func (sc *scenario) addFloor(o *Options, start func(*Options, netip.AddrPort, string) (*subject, error)) {
	if o.From == o.To {
		sc.kinds = append(sc.kinds, kind{"floor", start, program("cc")})
	}
}

// bridgeConfig returns the listener and route of a bridge. Between different protocols it prefers throughput.
func bridgeConfig(o *Options, w setup, listen, to netip.AddrPort) string {
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
%s`, listen, o.From, route, o.To, to, w.upstream+unpaced(o.To))
}

// unpaced returns the line of [[upstream]] that lets the benchmark's server of a protocol get all datagrams at once.
func unpaced(protocol string) string {
	if protocol == bedrock {
		return "server_library = \"go-raknet\"\n"
	}
	return ""
}
