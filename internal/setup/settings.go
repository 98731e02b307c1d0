package setup

import (
	"slices"
	"time"

	"tidegate/internal/a2s"
	"tidegate/internal/config"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/proxy/bridge"
	"tidegate/proxy/relay"
	"tidegate/proxy/relay/admission"
	"tidegate/ratelimit"
	"tidegate/session"
)

// networkAddresses is the number of addresses that fill their network.
const networkAddresses = 4

// drainTimeout is the time for goodbyes to arrive at shutdown.
const drainTimeout = 2 * time.Second

// Settings turns a checked configuration into the settings of a proxy with a number of loops. The secrets are the
// process's, the same for each reload.
func Settings(c *config.Config, loops int, secrets Secrets) *relay.Settings {
	s := &relay.Settings{
		Limits: session.Limits{
			Sessions: share(c.Limits.Sessions, loops),
			HalfOpen: share(c.Limits.HalfOpen, loops),

			Address: leaving(c.Limits.SessionsPerAddress, c.Limits.Sessions), // shared by the loops
			Network: leaving(networkAddresses*c.Limits.SessionsPerAddress, c.Limits.Sessions),

			HalfOpenAddress: shareUp(leaving(c.Limits.HalfOpenPerAddress, c.Limits.HalfOpen), loops),
			HalfOpenNetwork: shareUp(leaving(networkAddresses*c.Limits.HalfOpenPerAddress, c.Limits.HalfOpen), loops),
		},
		HandshakeTimeout: time.Duration(c.Limits.HandshakeTimeout),
		IdleTimeout:      time.Duration(c.Limits.IdleTimeout),
		DrainGrace:       time.Duration(c.Limits.DrainGrace),
		DrainTimeout:     drainTimeout,
		Answers: ratelimit.Rates{
			Overall: share(c.Limits.PingAnswers, loops),
			Network: share(max(c.Limits.PingAnswers/100, min(c.Limits.PingAnswers, 20)), loops),
		},
	}
	overall := int(c.Limits.UnprovedBytes)
	network := overall / 8
	s.Unproved = admission.Unproved{ // shared by the loops
		// A player's world needs its bytes, however many players there may be.
		Session: max(overall/64, min(network, 512<<10)),
		Network: network,
		Overall: overall,
		Trusted: config.Networks(c.Limits.TrustedNetworks),
	}
	s.Bounds, s.Held = rateLimits(c, loops), heldBounds(c, loops)
	upstreams := make(map[string]*relay.Upstream)
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		upstreams[u.Name] = newUpstream(c, u, &secrets)
		upstreams[u.Name].Pace = pace(u, loops)
	}
	routes := make(map[string]*relay.Route)
	for i := range c.Routes {
		r := &c.Routes[i]
		routes[r.Name] = newRoute(c, r, upstreams[r.Upstream])
	}
	for i := range c.Listeners {
		l := &c.Listeners[i]
		s.Listeners = append(s.Listeners, portListeners(c, l, routes[l.Route], &secrets)...)
	}
	return s
}

func newListener(c *config.Config, l *config.Listener, route *relay.Route, secrets *Secrets) relay.Listener {
	listener := relay.Listener{
		Name: l.Name, Addr: l.Address.AddrPort, Transport: transport(l.Transport, l.Protocols[0], l.Own.Over(c.Options)),
		Route: route, IdleTimeout: time.Duration(l.IdleTimeout),
		ProxiesFrom: config.Networks(l.ProxyProtocolFrom),
	}
	use := secrets.in(registry.Use{Queue: route.Bridge.Queue, Stream: listener.Transport.Stream})
	if route.Pings.Refresh > 0 {
		listener.Pong = new(relay.Pong)
		use.Pong = listener.Pong.Text
	}
	if route.Pings.Refresh > 0 && route.Mode == policy.ModeRelay && slices.Contains(l.Protocols, Opaque) {
		listener.Queries = relay.NewQueries(a2s.Source, secrets.Seed)
	} else if route.Pings.Beside && slices.Contains(l.Protocols, "enet") &&
		(route.Mode == policy.ModeRelay || route.Upstream.Protocol.Spec().Name == "enet") {
		listener.Queries = relay.NewQueries(a2s.Quake, secrets.Seed)
	}
	for _, name := range byEvidence(l.Protocols) {
		listener.Protocols = append(listener.Protocols, build(name, c, l.Own, use))
	}
	return listener
}

func newRoute(c *config.Config, r *config.Route, u *relay.Upstream) *relay.Route {
	return &relay.Route{
		Name:     r.Name,
		Upstream: u,
		Mode:     r.Mode.Value(),
		Admit:    r.Admit.Value(),
		Failover: failover(r),
		Pings:    pings(r),
		Bridge: bridge.Options{
			Ordered:      r.Ordered.Value(),
			Reliable:     r.Reliable.Value(),
			AllowLossy:   r.AllowLossy,
			Envelope:     r.Envelope.Value(),
			PacketID:     byte(r.PacketID),
			RawMessageID: r.RawMessageID,
			Queue:        int(r.Queue),
			Translator:   transcoding(r),
			Map:          mapOf(c, r),
			Unmapped:     r.Undeclared.Value(),
		},
	}
}

// failover returns the settings for sessions of a route that lose their server.
func failover(r *config.Route) relay.Failover {
	f := relay.Failover{Goodbyes: r.HoldGoodbyes, NewIDs: r.HoldNewIDs}
	if r.Failover == config.FailoverHold {
		f.Hold = time.Duration(r.HoldTime)
	}
	return f
}

// Times of questions for server list texts: from one to the next, and how long the text of a silent server counts.
const (
	pongRefresh = 2 * time.Second
	pongKeep    = time.Minute
)

// pings returns how a route's servers are asked for their server list texts. The zero value means that they are not
// asked.
func pings(r *config.Route) relay.Pings {
	p := relay.Pings{Beside: r.Pong != config.PongConfigured}
	if r.AsksServers() {
		p.Refresh, p.Keep, p.Name = pongRefresh, pongKeep, r.PongName
	}
	return p
}

// share returns one loop's part of a limit, at least 1.
func share(limit, loops int) int { return max(1, limit/loops) }
