package setup

import (
	"time"

	"tidegate/codec"
	"tidegate/internal/config"
	"tidegate/internal/registry"
	"tidegate/internal/upstream"
	"tidegate/proxy"
	"tidegate/ratelimit"
	"tidegate/session"
)

// Settings turns a configuration that has been checked into what a proxy is made of.
func Settings(c *config.Config, loops int) *proxy.Settings {
	s := &proxy.Settings{
		Limits: session.Limits{
			Sessions: share(c.Limits.Sessions, loops),
			HalfOpen: share(c.Limits.HalfOpen, loops),

			HalfOpenAddress: shareUp(c.Limits.HalfOpenPerAddress, loops),
			HalfOpenNetwork: shareUp(c.Limits.HalfOpenPerNetwork, loops),
			NetworkV4:       c.Limits.NetworkIPv4,
			NetworkV6:       c.Limits.NetworkIPv6,
		},
		HandshakeTimeout: time.Duration(c.Limits.HandshakeTimeout),
		IdleTimeout:      time.Duration(c.Limits.IdleTimeout),
		DrainGrace:       time.Duration(c.Limits.DrainGrace),
		DrainTimeout:     time.Duration(c.Limits.DrainTimeout),
		Answers: ratelimit.Rates{
			Overall: share(c.Limits.PingAnswers, loops),
			Network: share(c.Limits.PingAnswersPerNetwork, loops),
		},
	}
	s.Unproved = proxy.Unproved{ // which the loops share
		Session: int(c.Limits.UnprovedBytesPerSession),
		Network: int(c.Limits.UnprovedBytesPerNetwork),
		Overall: int(c.Limits.UnprovedBytes),
		Trusted: config.Networks(c.Limits.TrustedNetworks),
	}
	s.Bounds = bounds(c, loops)
	s.Networks = ratelimit.Networks{V4: c.Limits.NetworkIPv4, V6: c.Limits.NetworkIPv6}
	upstreams := make(map[string]*proxy.Upstream)
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		upstreams[u.Name] = newUpstream(c, u)
		upstreams[u.Name].Pace = pace(u, loops)
	}
	routes := make(map[string]*proxy.Route)
	for i := range c.Routes {
		r := &c.Routes[i]
		routes[r.Name] = newRoute(r, upstreams[r.Upstream])
	}
	for i := range c.Listeners {
		l := &c.Listeners[i]
		s.Listeners = append(s.Listeners, portListeners(c, l, routes[l.Route])...)
	}
	return s
}

func newListener(c *config.Config, l *config.Listener, route *proxy.Route) proxy.Listener {
	listener := proxy.Listener{
		Name: l.Name, Addr: l.Address.AddrPort, Transport: transport(l.Transport, l.Protocols[0], c), Route: route,
		ProxiesFrom: config.Networks(l.ProxyProtocolFrom),
	}
	as := registry.Use{Queue: route.Queue, Stream: listener.Transport.Stream}
	if route.Pings.Refresh > 0 {
		listener.Pong = new(proxy.Pong)
		as.Pong = listener.Pong.Text
	}
	for _, name := range surestFirst(l.Protocols) {
		listener.Protocols = append(listener.Protocols, build(name, c, as))
	}
	return listener
}

// newUpstream makes an upstream for all routes to it: its servers' sessions are counted together.
func newUpstream(c *config.Config, u *config.Upstream) *proxy.Upstream {
	var queue config.Size // the largest of its routes'
	for i := range c.Routes {
		if c.Routes[i].Upstream == u.Name {
			queue = max(queue, c.Routes[i].Queue)
		}
	}
	headers := read[proxy.Headers](u.ProxyProtocol)
	carrier := transport(u.Transport, u.Protocol, c)
	carrier.Probes = byName(u.Protocol).Probes
	carrier.Pooled = u.ShareSockets
	if !carrier.Stream {
		carrier.ReceiveBuffer = int(u.ReceiveBuffer)
	}
	carrier.Transparent = u.Transparent
	carrier.Sources = u.SourcePrefix.Prefix()
	return &proxy.Upstream{
		Name: u.Name,
		Protocol: build(u.Protocol, c, registry.Use{
			Queue: int(queue), Stream: carrier.Stream, Headroom: headers.Len(),
			Servers: &registry.Servers{Cookies: u.CookieMode.String(), Secret: u.CookieSecret.Bytes()},
		}),
		Transport: carrier,
		Headers:   headers,
		Checks:    checks(u),
		Sources:   sources(u.Sources),
		Servers:   targets(u.Servers),
		Options:   poolOptions(u),
	}
}

// checks are how an upstream's servers are checked, if at all.
func checks(u *config.Upstream) proxy.Checks {
	by := proxy.CheckNothing
	switch _, pings := byName(u.Protocol).Default().(codec.Pinger); {
	case u.Health == config.HealthPing, u.Health == config.HealthAuto && pings && u.Transport == config.UDP:
		by = proxy.CheckPing
	case u.Health == config.HealthConnect:
		by = proxy.CheckJoin
	}
	return proxy.Checks{By: by, Interval: time.Duration(u.HealthInterval), Timeout: time.Duration(u.HealthTimeout)}
}

func poolOptions(u *config.Upstream) upstream.Options {
	o := upstream.Options{Balance: read[upstream.Balance](u.Balance), RetryAfter: time.Duration(u.RetryAfter)}
	if checks(u).By != proxy.CheckNothing {
		o.Rise, o.Fall = u.HealthRise, u.HealthFall
	}
	return o
}

func targets(servers []config.Server) []upstream.Target {
	all := make([]upstream.Target, len(servers))
	for i, s := range servers {
		all[i] = upstream.Target{Addr: s.Address.AddrPort, Weight: s.Weight, MaxSessions: s.MaxSessions}
	}
	return all
}

func newRoute(r *config.Route, u *proxy.Upstream) *proxy.Route {
	return &proxy.Route{
		Name:         r.Name,
		Upstream:     u,
		Mode:         read[proxy.Mode](r.Mode),
		Admit:        read[proxy.Admit](r.Admit),
		Ordered:      read[proxy.Ordered](r.Ordered),
		Reliable:     read[proxy.Reliable](r.Reliable),
		Failover:     failover(r),
		AllowLossy:   r.AllowLossy,
		Envelope:     read[proxy.Envelope](r.Envelope),
		PacketID:     r.PacketID,
		RawMessageID: r.RawMessageID,
		Queue:        int(r.Queue),
		Translator:   transcoding(r),
		Pings:        pings(r),
	}
}

// failover is what becomes of a route's sessions whose server is lost.
func failover(r *config.Route) proxy.Failover {
	f := proxy.Failover{Goodbyes: r.HoldGoodbyes, NewIDs: r.HoldNewIDs}
	if r.Failover == config.FailoverHold {
		f.Hold = time.Duration(r.HoldTime)
	}
	return f
}

// pings are how a route's servers are asked for their texts, if at all.
func pings(r *config.Route) proxy.Pings {
	if !r.AsksServers() {
		return proxy.Pings{}
	}
	return proxy.Pings{Refresh: time.Duration(r.PongRefresh), Keep: time.Duration(r.PongKeep), Name: r.PongName}
}

// share is one loop's part of a limit, at least 1.
func share(limit, loops int) int { return max(1, limit/loops) }
