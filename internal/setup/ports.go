package setup

import (
	"fmt"
	"net/netip"

	"tidegate/internal/config"
	"tidegate/internal/upstream"
	"tidegate/proxy/relay"
)

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
