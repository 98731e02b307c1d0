package relay

import (
	"net/netip"
	"slices"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/record"
	"tidegate/internal/stray"
	"tidegate/proxy/bridge"
	"tidegate/proxy/relay/admission"
	"tidegate/proxy/relay/saved"
	"tidegate/session"
)

// shared restores the part of a Relay that belongs to no single session. It comes before the sessions. open opens the
// UDP socket of a listener that the settings no longer have.
func (i *Importer) shared(b []byte, open func(addr netip.AddrPort) (netio.Socket, error)) error {
	r := i.relay
	var v saved.Relay
	if err := record.ReadAt(i.now, b, &v); err != nil {
		return err
	}
	if v.Kind != saved.RelayKind || v.Version != saved.Version {
		return unusable("version", v.Version)
	}
	last := session.ID(v.Last)
	if !r.serials.has(last) {
		return unusable("number of loops", "another one")
	}
	r.serials.last = max(r.serials.last, last)
	r.counters.Restore(v.Counters)
	r.samples.tallies.Restore(v.Tallies)
	r.samples.toClients.Restore(v.Clients)
	r.samples.toUpstreams.Restore(v.Upstreams)
	recallBuckets(i.now, r.guard.Start(), r.guard.Overall(), v.Meter)
	r.backlog.Lossy = v.Lossy.Time(i.now)
	r.draining, r.drainBy, r.farewell = v.Draining, v.DrainBy.Time(i.now), v.Farewell
	if r.shard.index == 0 {
		r.pools.Restore(v.Pools)
		if err := r.arrivals.restore(i.now, v.Arrivals); err != nil {
			r.journal.log.Error().Err(err).Msg("sessions that waited for their clients are lost")
		}
	}
	for _, rule := range v.Rules {
		r.guard.RecallCount(admission.RuleCount(rule))
	}
	for _, w := range v.Paths {
		i.window(&w)
	}
	i.routes = v.Routes
	for n := range v.Listeners {
		i.listener(&v.Listeners[n], open)
	}
	return nil
}

// window restores the use of a path, if the settings still have its upstream.
func (i *Importer) window(v *saved.Window) {
	for _, route := range i.relay.routes {
		if u := route.Upstream; u.Name == v.Upstream && u.Pace.Datagrams > 0 {
			i.relay.paths.of(i.now, u, v.Server, v.Source).window.Recall(timesOf(i.now, v.Sent))
			return
		}
	}
}

// listener restores the state of a listener. A listener that the settings no longer have is retired, as after a
// reload. If it cannot be opened, its sessions are lost.
func (i *Importer) listener(v *saved.Listener, open func(netip.AddrPort) (netio.Socket, error)) {
	r := i.relay
	at := saved.Session{Listener: v.Addr, Stream: v.Stream}
	n := slices.IndexFunc(r.listeners, wasAt(&at))
	var l *listener
	if n >= 0 {
		l = r.listeners[n]
	} else {
		r.lastListener++
		l = &listener{
			index: r.lastListener, born: r.born, id: stray.ListenerID(v.Name, v.Addr.Port()),
			name: v.Name, addr: v.Addr, stream: v.Stream, retired: true,
			drops: r.samples.tallies.DropsOf(v.Name),
		}
		l.transport.Stream = v.Stream
		l.route = &route{Route: &Route{Name: v.Name, Upstream: &Upstream{Name: v.Name}}}
		l.proxies = newTrustedProxies(v.Trusted, r.settings.Limits.Sessions+r.settings.Limits.HalfOpen, nil)
		if !v.Stream {
			socket, err := open(v.Addr)
			if err != nil {
				return // its sessions cannot go on
			}
			l.socket, l.port = socket, socket.Addr().Port()
			socket.SetOwner(l)
			r.retired.list = append(r.retired.list, l)
		}
		i.gone = append(i.gone, l)
	}
	if l.proxies != nil {
		for _, h := range v.Headers {
			from := restoreProxy(&h)
			l.proxies.remember(from.addr, from.header)
		}
	}
	if l.joins != nil && r.shard.index == 0 {
		l.joins.table.Restore(i.now, v.Joins)
		l.joins.table.Inherit(v.JoinCounts)
	}
	if l.pong != nil && r.shard.index == 0 {
		l.pong.set(v.Text, v.Pong)
	}
}

// route returns the route of a session. A route that the settings no longer have, or have with another mode or
// protocol, is made again from the record, as far as its sessions need it.
func (i *Importer) route(v *saved.Session) *route {
	r := i.relay
	n := slices.IndexFunc(i.routes, func(o saved.Route) bool { return o.Name == v.Route })
	for _, one := range r.routes {
		if one.Name == v.Route && (n < 0 || fits(&i.routes[n], one.Route)) {
			return one
		}
	}
	if n < 0 {
		return nil
	}
	if i.made == nil {
		i.made = make(map[string]*route)
	}
	if i.made[v.Route] == nil {
		i.made[v.Route] = remake(&i.routes[n], r)
	}
	return i.made[v.Route]
}

func fits(v *saved.Route, r *Route) bool {
	u := r.Upstream
	return policy.Mode(v.Mode) == r.Mode && policy.Admit(v.Admit) == r.Admit && v.Upstream == u.Name &&
		v.Protocol == u.Protocol.Spec().Name && v.Stream == u.Transport.Stream
}

// remake returns the route, or nil if the settings do not have its protocol.
func remake(v *saved.Route, r *Relay) *route {
	protocol := r.settings.protocolOf(v.Upstream, v.Protocol)
	if protocol == nil || policy.Mode(v.Mode) > policy.ModeRelay || policy.Admit(v.Admit) > policy.AdmitAuto {
		return nil
	}
	return &route{
		Route: &Route{
			Name: v.Name, Mode: policy.Mode(v.Mode), Admit: policy.Admit(v.Admit),
			Upstream: &Upstream{Name: v.Upstream, Protocol: protocol, Transport: Transport{Stream: v.Stream}},
			Failover: Failover{Hold: v.Hold, Goodbyes: v.Goodbyes, NewIDs: v.NewIDs},
			Bridge: bridge.Options{
				Ordered: v.Ordered, Reliable: v.Reliable, AllowLossy: v.Lossy, Envelope: v.Envelope, PacketID: v.PacketID,
				RawMessageID: v.RawID, Queue: v.Queue,
			},
		},
		speaks: r.locals.of(protocol), pool: r.pools.Get(v.Upstream), ids: newClientIDs(r.shard, r.identities.secret()),
	}
}

// protocolOf returns the protocol of an upstream, or any other of that name, or nil.
func (s *Settings) protocolOf(upstream, name string) codec.Protocol {
	for i := range s.Listeners {
		if u := s.Listeners[i].Route.Upstream; u.Name == upstream && u.Protocol.Spec().Name == name {
			return u.Protocol
		}
	}
	return s.protocolNamed(name)
}

// protocolNamed returns a protocol of the settings, or nil.
func (s *Settings) protocolNamed(name string) codec.Protocol {
	for i := range s.Listeners {
		l := &s.Listeners[i]
		for _, p := range append(slices.Clone(l.Protocols), l.Route.Upstream.Protocol) {
			if p.Spec().Name == name {
				return p
			}
		}
	}
	return nil
}
