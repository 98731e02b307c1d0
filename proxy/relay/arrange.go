package relay

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"tidegate/codec/nethernet"
	"tidegate/internal/netio"
	"tidegate/internal/stray"
	"tidegate/proxy/bridge"
	"tidegate/proxy/relay/admission"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
	"tidegate/session"
)

// New returns a Relay whose time begins at now. Attach must give each listener its socket.
func New(s *Settings, o Options, sockets Sockets, now time.Time) *Relay {
	shared := o.Shared
	if shared == nil {
		shared = NewShared(now, ^o.Seed)
	}
	r := &Relay{
		pools:      shared.Pools,
		journal:    newJournal(now, o.Log, o.Access, o.HideAddresses, ^o.Seed),
		table:      sessionTable{Table: session.NewTable[link](s.Limits, now)},
		presence:   shared.presence,
		arrivals:   shared.arrivals,
		handed:     shared.handed,
		ready:      new(ready),
		calls:      calls{make(map[*call]struct{}), nethernet.NewIntegrity()},
		places:     shared.places,
		identities: identities{rand.New(rand.NewPCG(o.Seed, 0x7469646567617465))},
		shard:      shard{o.Shard, max(o.Shards, 1)},
		born:       now,
		serials:    newSerials(o.Shard, max(o.Shards, 1)),
		walks:      walks{left: turnSlice},
		abnormal:   o.Abnormal,
	}
	r.table.complete = func(now time.Time, e *Entry) bool { return complete(r, now, e) }
	r.table.Share(shared.places)
	r.paths = paths{shard: r.shard, byKey: make(map[pathKey]*path)}
	r.waiting.pools, r.waiting.shard, r.waiting.dirty = shared.Pools, r.shard, &r.dirty
	r.samples.born = now
	r.known = known{gate: o.Gate, players: shared.Players, loop: o.Shard}
	r.ways.players = shared.Players
	r.offload = offload{forwarder: o.Forwarder, journal: &r.journal,
		watches: func(e *Entry) bool { return r.sockets.tap.watches(e) }}
	r.retired.deserted = o.Deserted
	if r.retired.deserted == nil {
		r.retired.deserted = func() { r.retired.close(r.retired.empty(), len(r.retired.list)) }
	}
	r.carrier = bridge.NewCarrier(&r.counters)
	r.watches = make(watches)
	r.guard = admission.NewGuard(now, o.Bans, r.identities.next(), &r.backlog, &r.counters)
	r.drops = dropLog{counters: &r.counters, journal: &r.journal, recent: stats.NewRecent(r.identities.next())}
	r.sockets = outlet{Sockets: sockets, paths: &r.paths, drops: &r.drops, counters: &r.counters, dirty: &r.dirty,
		players: shared.Players, allowance: shared.allowance}
	r.held.Shared = shared.holders
	rates := ratelimit.Rates{Overall: repliesOverall, Network: repliesNetwork}
	r.sockets.replies = ratelimit.NewBudget(rates, r.identities.next())
	r.arrange(now, s)
	r.filter(now, s.Filter)
	if o.Recorder != nil {
		r.record(o.Recorder.Box(o.Shard))
	}
	return r
}

// Reload replaces the Relay's settings. sockets are those of new listeners.
func (r *Relay) Reload(now time.Time, s *Settings, sockets []netio.Socket) {
	for _, p := range r.pingers {
		p.close()
	}
	for _, q := range r.queriers {
		q.close()
	}
	r.pingers, r.queriers = nil, nil
	closeCheckers(now, r)
	r.precopy.stop() // the records of rules change
	r.arrange(now, s)
	r.walk(now, recallSession, nil) // sessions that the new settings let it forward are forwarded again
	r.table.Limit(s.Limits)
	for i, socket := range sockets {
		if socket != nil {
			r.Attach(i, socket)
		}
	}
	r.filter(now, s.Filter)
}

// arrange gives the Relay the listeners and routes of the settings. It keeps the state of present ones that stay.
func (r *Relay) arrange(now time.Time, s *Settings) {
	r.settings = s
	r.offload.rate = s.flowRate()
	r.sockets.unproved, r.held.Bounds = &s.Unproved, s.Held
	r.guard.SetLimits(s.Bounds, r.identities.next)
	r.walk(now, enrollAgain, nil)
	r.locals = make(locals)
	oldRoutes, oldListeners := r.routes, slices.Concat(r.listeners, r.retired.list)
	r.routes, r.listeners = nil, nil
	known, stays := make(map[*Route]*route), make(map[*listener]bool)
	present := listenersByKey(oldListeners)
	for i := range s.Listeners {
		l := &s.Listeners[i]
		if known[l.Route] == nil {
			known[l.Route] = r.newRoute(l.Route, oldRoutes)
		}
		d := present[l.key()]
		if d == nil {
			r.lastListener++
			d = &listener{index: r.lastListener, born: r.born, id: stray.ListenerID(l.Name, l.Addr.Port())}
		}
		stays[d] = true
		r.configure(d, l, known[l.Route])
		r.listeners = append(r.listeners, d)
	}
	r.retired.retire(slices.DeleteFunc(oldListeners, func(l *listener) bool { return stays[l] }))
	r.paths.arrange(now, r.routes)
	if r.shard.index == 0 { // the siblings' listeners have the same Pongs
		r.pingers = newPingers(now, r.routes, r.listeners, r.identities)
		r.queriers = newQueriers(now, r.routes, r.listeners)
		r.checkers = newCheckers(now, r.routes, r.identities)
	}
}

func (r *Relay) newRoute(settings *Route, oldRoutes []*route) *route {
	u := settings.Upstream
	pool := r.pools.Get(u.Name)
	pool.Update(u.Servers, u.Options)
	route := &route{Route: settings, speaks: r.locals.of(u.Protocol), pool: pool}
	for _, old := range oldRoutes {
		if old.Name == settings.Name {
			route.ids, route.modules = old.ids, old.modules
		}
	}
	if route.modules == nil {
		route.modules = new(modules)
	}
	route.modules.replace(settings.Modules, r.shard.index)
	if route.ids == nil {
		route.ids = newClientIDs(r.shard, r.identities.secret())
	}
	r.routes = append(r.routes, route)
	return route
}

// configure gives a listener its new settings. Its sessions keep theirs.
func (r *Relay) configure(listener *listener, l *Listener, route *route) {
	if l.Pong != nil && listener.pong != nil && r.shard.index == 0 {
		l.Pong.listing.Store(listener.pong.listing.Load()) // until the servers have answered again
		l.Pong.other.Store(listener.pong.other.Load())
	}
	if l.Queries != nil && listener.queries != nil && r.shard.index == 0 {
		for kind := range l.Queries.answers {
			l.Queries.answers[kind].Store(listener.queries.answers[kind].Load())
		}
		l.Queries.asked.Store(true) // the servers are asked at once
	}
	listener.queries = l.Queries
	listener.name, listener.addr, listener.retired = l.Name, l.Addr, false
	listener.transport, listener.stream = l.Transport, l.Transport.Stream
	if l.Joins != nil {
		l.Joins.PlaceAt(route.pool.Hold)
	}
	listener.joins, listener.stacks = newJoinTable(l.Joins, listener.joins, &r.known), l.Stacks
	listener.route, listener.pong, listener.answers, listener.entries = route, l.Pong, nil, nil
	listener.first = l.FirstBytes()
	listener.idle = l.IdleTimeout
	listener.forwardable = r.settings.Forwardable(l) == nil
	listener.drops = r.samples.tallies.DropsOf(l.Name)
	if r.settings.Answers.Overall > 0 && !listener.stream {
		listener.answers = ratelimit.NewBudget(r.settings.Answers, r.identities.next())
	}
	limits := &r.settings.Limits
	listener.proxies = newTrustedProxies(l.ProxiesFrom, limits.Sessions+limits.HalfOpen, listener.proxies)
	for _, p := range l.Protocols {
		proof := admission.ProofOf(p, listener.stream)
		listener.entries = append(listener.entries, protocolEntry{
			protocol:  r.locals.of(p),
			bridge:    bridge.New(p, l.Route.Upstream.Protocol, &l.Route.Bridge),
			asksFirst: l.Route.asksFirst(p),
			proof:     proof,
			guessed:   l.Route.guessable(p, listener.stream),
			tally:     r.samples.tallies.Of(l.Name, p.Spec().Name),
		})
	}
}

// Attach gives the Relay the socket of a listener. Streams accepted by the socket must have its Owner.
func (r *Relay) Attach(listener int, s netio.Socket) {
	l := r.listeners[listener]
	l.socket, l.port = s, s.Addr().Port()
	s.SetOwner(l)
}

// enrollAgain is the visit that counts a session at its address and its network, after the limits have changed.
func enrollAgain(r *Relay, _ time.Time, e *Entry) int {
	if !e.Value.isRelayed() {
		e.Value.choked = false
	}
	if !r.guard.EnrollAgain(&e.Value.meter, e.Key.Client.Addr()) {
		return looked
	}
	return copied
}

// recallSession is the visit that ends the forwarding of a session, which may be forwarded again.
func recallSession(r *Relay, _ time.Time, e *Entry) int {
	cost := looked
	if e.Value.shortcut != nil {
		cost = acted
	}
	r.offload.recall(e)
	e.Value.refusedAt = 0
	return cost
}

// Fresh returns the indexes of the settings' listeners that the Relay does not have, and notes the addresses of the
// others.
func (r *Relay) Fresh(settings *Settings, addrs []netip.AddrPort) (fresh []int) {
	present := listenersByKey(r.listeners, r.retired.list)
	for i := range addrs {
		if l := present[settings.Listeners[i].key()]; l != nil {
			addrs[i] = l.socket.Addr()
		} else {
			fresh = append(fresh, i)
		}
	}
	return fresh
}

// ListenerSocket returns the socket of a listener of the settings.
func (r *Relay) ListenerSocket(i int) netio.Socket { return r.listeners[i].socket }

// ListenerSockets yields all listening sockets, and whether they accept streams: those of the settings, and those of
// removed listeners with sessions.
func (r *Relay) ListenerSockets(yield func(s netio.Socket, stream bool) bool) {
	for _, l := range slices.Concat(r.listeners, r.retired.list) {
		if !yield(l.socket, l.stream) {
			return
		}
	}
}

// ListRetired asks for the addresses of removed UDP listeners with sessions, as their settings had them.
type ListRetired struct {
	ofAll
	Addrs []netip.AddrPort // the answer
}

// Next implements Request.
func (q *ListRetired) Next(relays int) (index int, work stats.Work) {
	if index = q.after(relays); index < 0 {
		slices.SortFunc(q.Addrs, netip.AddrPort.Compare)
		q.Addrs = slices.Compact(q.Addrs)
	}
	return index, stats.WorkListeners
}

func (q *ListRetired) put(r *Relay, _ time.Time) Visit {
	for _, l := range r.retired.list {
		if l.sessions > 0 {
			q.Addrs = append(q.Addrs, l.addr)
		}
	}
	return nil
}

// Deserted returns the indexes of removed listeners without sessions.
func (r *Relay) Deserted() map[int]bool { return r.retired.empty() }

// CloseDeserted closes removed listeners, at most a number of them, and reports whether others are left.
func (r *Relay) CloseDeserted(indexes map[int]bool, most int) (more bool) {
	return r.retired.close(indexes, most)
}

// Stood notes that the process stood still for d. Servers had no chance to answer in that time, and clients no chance
// to finish a handshake. So the time does not count against them.
func (r *Relay) Stood(d time.Duration) {
	r.journal.log.Warn().Int64("for_ms", d.Milliseconds()).Msg("the process stood still")
	r.stood += d
	for _, c := range r.checkers {
		c.stood(d)
	}
}
