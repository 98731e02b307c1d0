// Package setup turns a configuration into the parts of a proxy: proxy.Settings with listeners, routes and upstreams,
// protocols by their names, and rules with the files that they read. It also gives config the Traits of each
// protocol. It runs nothing.
//
// Start with Load, Settings and the function known.
package setup

import (
	"slices"
	"time"

	"tidegate/internal/a2s"
	"tidegate/internal/config"
	"tidegate/internal/each"
	"tidegate/internal/netio"
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
	s.Bounds = each.Of(c.EffectiveLimits(), func(l config.Limit) ratelimit.Limit { return rateLimit(l, loops) })
	s.Held = heldBounds(c, loops)
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
	pongKeep    = 10 * time.Second
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

// Load reads a configuration file and checks it for this machine.
func Load(path string) (c *config.Config, warnings []config.Fault, err error) {
	return checkHere(config.Load(path, Traits()))
}

// Parse is Load for a text in memory. name is the file name in faults.
func Parse(name string, text []byte) (c *config.Config, warnings []config.Fault, err error) {
	return checkHere(config.Parse(name, text, Traits()))
}

// checkHere checks a configuration for this machine.
func checkHere(c *config.Config, warnings []config.Fault, err error) (*config.Config, []config.Fault, error) {
	if err != nil {
		return nil, nil, err
	}
	own, _ := netio.OwnAddresses() // none where the system does not list them
	if err := c.CheckSelfForwarding(own); err != nil {
		return nil, nil, err
	}
	return c, warnings, nil
}

// rateLimit returns one loop's limit of a rate or of queues.
func rateLimit(l config.Limit, loops int) ratelimit.Limit {
	b := ratelimit.Limit{
		Of:      l.Of.Value(),
		Per:     l.Per.Value(),
		Verdict: ratelimit.Verdict(l.Verdict.Value()),
		Rate:    ratelimit.Rate{PerSecond: int(l.Rate), Burst: int(l.Burst)},
	}
	// The kernel spreads clients over the loops by address and port. So each loop gets its share of a limit for many
	// clients. A burst may come from a single client, which stays on one loop.
	if b.Per != ratelimit.PerSession {
		b.Rate.PerSecond = shareUp(b.Rate.PerSecond, loops)
	}
	if b.Per == ratelimit.Overall {
		b.Rate.Burst = shareUp(b.Rate.Burst, loops)
	}
	return b
}

// heldBounds returns one loop's bounds on held memory. A loop has its share of the whole. A session has a part of
// it, and room for the largest message and the one behind it. Loops count an address together, and it has at least as
// much as one session.
func heldBounds(c *config.Config, loops int) admission.HeldBounds {
	held := int(c.Limits.HeldBytes)
	overall := shareUp(held, loops)
	session := min(max(held/16, 2*int(c.LargestMessage())), overall)
	return admission.HeldBounds{
		Session: session,
		Address: max(held/8, session),
		Overall: overall,
	}
}

// shareUp returns one loop's part of a limit, rounded up, so that small limits are not zero.
func shareUp(limit, loops int) int { return (limit + loops - 1) / loops }

// leaving returns the places that one source may take of a table. An eighth is for others, also where the limit is
// larger. A table of less than 8 places has none for them.
func leaving(limit, table int) int { return min(limit, table-table/8) }

// BanTerms returns the terms of the bans that Tidegate itself imposes.
func BanTerms(b config.Bans) ratelimit.Terms {
	return ratelimit.Terms{
		First: time.Duration(b.First), Longest: time.Duration(b.Longest), Memory: time.Duration(b.Longest),
	}
}
