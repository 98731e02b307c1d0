package setup

import (
	"fmt"
	"net/netip"
	"time"

	"tidegate/codec"
	"tidegate/internal/config"
	"tidegate/internal/each"
	"tidegate/internal/netio"
	"tidegate/internal/registry"
	"tidegate/internal/upstream"
	"tidegate/proxy/relay"
)

// newUpstream makes one upstream for all its routes, because the sessions of its servers are counted together.
func newUpstream(c *config.Config, u *config.Upstream, secrets *Secrets) *relay.Upstream {
	var queue config.Size // the largest of all its routes
	for i := range c.Routes {
		if c.Routes[i].Upstream == u.Name {
			queue = max(queue, c.Routes[i].Queue)
		}
	}
	headers := u.ProxyProtocol.Value()
	carrier := transport(u.Transport, u.Protocol, u.Own.Over(c.Options))
	carrier.Probes = byName(u.Protocol).Probes
	carrier.Pooled = u.SharesSockets()
	if !carrier.Stream {
		carrier.ReceiveBuffer = int(c.Loop.ReceiveBuffer / 2)
	}
	carrier.Transparent, carrier.Sources = u.Transparent(), u.SourcePrefix()
	return &relay.Upstream{
		Name: u.Name,
		Protocol: build(u.Protocol, c, u.Own, secrets.in(registry.Use{
			Queue: int(queue), Stream: carrier.Stream, Headroom: relay.HeaderLen(headers),
			Servers: &registry.Servers{
				Cookies: u.CookieMode.String(), Secret: u.CookieSecret.Bytes(), Library: string(u.Library),
			},
		})),
		Transport: carrier,
		Headers:   headers,
		Checks:    checks(u),
		Sources:   u.SourceAddresses(),
		Servers: each.Of(u.Servers, func(s config.Server) upstream.Target {
			return upstream.Target{Addr: s.Address.AddrPort, Weight: s.Weight, MaxSessions: s.MaxSessions}
		}),
		Options: poolOptions(u),
	}
}

// Health checks in a row that bring a server up, or take it down.
const healthRise, healthFall = 2, 3

// retryAfter is the first rest of a server that has failed a session.
const retryAfter = 5 * time.Second

// packetSpan is the time in which max_packets counts, as RakNet's servers do.
const packetSpan = 10 * time.Millisecond

// checks returns how an upstream's servers are checked.
func checks(u *config.Upstream) relay.Checks {
	by := relay.CheckNothing
	switch _, pings := byName(u.Protocol).Default().(codec.Pinger); {
	case u.Health == config.HealthPing, u.Health == config.HealthAuto && pings && u.Transport == config.UDP:
		by = relay.CheckPing
	case u.Health == config.HealthHTTP:
		by = relay.CheckHTTP
	case u.Health == config.HealthConnect:
		by = relay.CheckJoin
	}
	every := time.Duration(u.HealthInterval)
	return relay.Checks{By: by, Interval: every, Timeout: min(every, max(every/2, time.Second), 5*time.Second)}
}

func poolOptions(u *config.Upstream) upstream.Options {
	o := upstream.Options{Balance: u.Balance.Value(), RetryAfter: retryAfter}
	if checks(u).By != relay.CheckNothing {
		o.Rise, o.Fall = healthRise, healthFall
	}
	return o
}

// pace returns one loop's part of the datagram rate that an upstream's servers accept from one address.
func pace(u *config.Upstream, loops int) relay.Pace {
	most := u.Packets()
	if most == 0 {
		return relay.Pace{}
	}
	p := relay.Pace{Datagrams: share(most, loops), Span: packetSpan, Guessed: u.Library == config.AnyLibrary}
	p.Busy = byName(u.Protocol).Busy
	if p.Busy != nil && u.Library != config.GoRakNetLibrary && u.Library != config.StockLibrary {
		p.Silent = max(8, p.Datagrams*3/2) // with a third more for joins: two thirds of the server's own bound
	}
	return p
}

// transport returns the transport of a protocol's datagrams.
func transport(t config.Transport, protocol string, options config.Options) relay.Transport {
	if t != config.TCP {
		return relay.Transport{}
	}
	d := byName(protocol)
	return relay.Transport{
		Stream: true, Prefix: netio.PrefixOf(d.Stream.Prefix), MaxFrame: d.Stream.MaxFrame(options.Of(d)),
	}
}

// portListeners makes one listener of each port of a configured one. They share its name. If its servers have as many
// ports, the n-th port leads to the servers' n-th ports. These are separate game servers with their own route and
// upstream.
func portListeners(
	c *config.Config, l *config.Listener, route *relay.Route, secrets *Secrets,
) []relay.Listener {
	var all []relay.Listener
	for n := range l.Address.Ports() {
		one := *l
		one.Address = config.AddressOf(l.Address.Nth(n))
		all = append(all, newListener(c, &one, routeOfPort(c, l.Route, route, n), secrets))
	}
	return all
}

// routeOfPort returns the route of a listener's n-th port. The proxy identifies routes by name, so the name includes
// the port.
func routeOfPort(c *config.Config, name string, route *relay.Route, n int) *relay.Route {
	servers := serversOf(c, name)
	if n == 0 || len(servers) == 0 || servers[0].Address.Ports() == 1 {
		return route
	}
	suffix := fmt.Sprintf(":%d", servers[0].Address.Nth(n).Port())
	up := *route.Upstream
	up.Name += suffix
	up.Servers = make([]upstream.Target, len(route.Upstream.Servers))
	for i, target := range route.Upstream.Servers {
		target.Addr = netip.AddrPortFrom(target.Addr.Addr(), target.Addr.Port()+uint16(n))
		up.Servers[i] = target
	}
	shifted := *route
	shifted.Name += suffix
	shifted.Upstream = &up
	return &shifted
}

// serversOf returns the servers of a route.
func serversOf(c *config.Config, route string) []config.Server {
	for _, r := range c.Routes {
		for _, u := range c.Upstreams {
			if r.Name == route && u.Name == r.Upstream {
				return u.Servers
			}
		}
	}
	return nil
}
