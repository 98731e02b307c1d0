package proxy

import (
	"net/netip"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/internal/kernel/shield"
	"tidegate/internal/netio"
	"tidegate/internal/upstream"
	"tidegate/proxy/bridge"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
	sessions "tidegate/session"
)

// Sockets are the functions that a Relay needs from its loop. netio.Poller implements them.
type Sockets interface {
	Dial(to netip.AddrPort, o netio.SocketOptions) (netio.Socket, error)
	DialStream(to netip.AddrPort, o netio.StreamOptions) (netio.Socket, error)
	Buffer() []byte
	Send(s netio.Socket, to netip.AddrPort, datagram []byte)
	Forward(s netio.Socket, to netip.AddrPort, datagram []byte)
}

// Relay is one loop's share of the proxy, as a machine without I/O. It owns sessions. Each session joins a
// client-side connection to an upstream-side connection. Its driver gives it datagrams and the time:
//
//	relay.Receive(now, socket, from, datagram) // any number of times
//	relay.Advance(now)                         // runs due work
//	relay.Flush(now)                           // writes to Sockets; then wait until relay.NextTimeout()
//
// It is not safe for concurrent use.
type Relay struct {
	settings *Settings
	sockets  outlet
	journal  journal
	drops    dropLog
	counters stats.Counters
	tallies  stats.Tallies
	serials  serials
	born     time.Time

	samples samples

	locals       locals
	listeners    []*listener // in the order of the settings
	retired      retiredListeners
	lastListener int // index of the youngest listener
	routes       []*route
	pingers      []*pinger
	checkers     []*checker
	closing      closingConns
	waiting      waiting
	table        sessionTable
	presence     *Presence // shared with its siblings
	dirty        marked
	paths        paths
	pools        *upstream.Pools // shared with its siblings
	shard        shard

	backlog backlog
	known   known
	offload offload

	guard      guard
	carrier    bridge.Carrier
	identities identities
	draining   bool      // no new clients
	drainBy    time.Time // when remaining sessions get their goodbyes, while draining
	farewell   bool      // the goodbyes have been sent

	walks                       walks
	bansEnforced, rulesEnforced rounds
}

// route is a Route with the state that a Relay needs for it.
type route struct {
	*Route
	speaks codec.Protocol // the upstream's protocol, as this Relay's instance
	pool   *upstream.Pool
	ids    *clientIDs
}

// mostTries is how many servers a client may be sent to before it is refused. More servers would have no time to
// answer.
func (r *route) mostTries() int { return min(len(r.pool.Servers()), 4) }

// shard is the index of a Relay among the Relays that share the listeners, and their number.
type shard struct{ index, of int }

// RelayOptions are the settings in which a Relay differs from its siblings, its log, and the state that siblings
// share.
type RelayOptions struct {
	Shard, Shards int    // index and number of the Relays that share the listeners
	Seed          uint64 // for the identities of clients that have none
	Log           zerolog.Logger
	HideAddresses bool             // log the networks of clients, not their addresses
	Bans          *ratelimit.Bans  // shared by all Relays; nil: there are no bans
	Pools         *upstream.Pools  // shared by all siblings; nil: its own
	Presence      *Presence        // shared by all siblings; nil: its own
	Allowance     *Allowance       // shared by all siblings; nil: its own
	Places        *sessions.Places // shared by all siblings; nil: its own
	Forwarder     Forwarder        // shared by all siblings; nil: none
	Gate          *shield.Gate     // its own, before its listeners' sockets; nil: none
	// Deserted is called when a removed listener has lost its last session. All siblings close its sockets together,
	// since the kernel steers clients by the number of sockets. Nil means that the Relay has no siblings. Then it closes
	// the socket itself.
	Deserted func()
}

// NewRelay returns a Relay whose time begins at now. Attach must give each listener its socket.
func NewRelay(s *Settings, o RelayOptions, sockets Sockets, now time.Time) *Relay {
	if o.Pools == nil {
		o.Pools = new(upstream.Pools)
	}
	if o.Presence == nil {
		o.Presence = new(Presence)
	}
	r := &Relay{
		pools:      o.Pools,
		journal:    newJournal(now, o.Log, o.HideAddresses, ^o.Seed),
		table:      sessionTable{sessions.NewTable[session](s.Limits, now)},
		presence:   o.Presence,
		identities: newIdentities(o.Seed),
		shard:      shard{o.Shard, max(o.Shards, 1)},
		born:       now,
		serials:    newSerials(o.Shard, max(o.Shards, 1)),
		walks:      walks{left: turnSlice},
	}
	if o.Places != nil {
		r.table.Share(o.Places)
	}
	r.paths = paths{shard: r.shard, byKey: make(map[pathKey]*path)}
	r.waiting.pools, r.waiting.shard, r.waiting.dirty = o.Pools, r.shard, &r.dirty
	r.samples.born = now
	r.known.gate = o.Gate
	r.offload = offload{forwarder: o.Forwarder, journal: &r.journal,
		watches: func(e *entry) bool { return r.sockets.tap.watches(e) }}
	r.retired.deserted = o.Deserted
	if r.retired.deserted == nil {
		r.retired.deserted = func() { r.retired.close(r.retired.empty()) }
	}
	r.carrier = bridge.NewCarrier(&r.counters)
	r.guard = newGuard(now, o.Bans, r.identities.next())
	r.guard.table, r.guard.backlog, r.guard.drops = r.table, &r.backlog, &r.drops
	r.drops = dropLog{counters: &r.counters, journal: &r.journal, recent: stats.NewRecent(r.identities.next())}
	r.sockets = outlet{Sockets: sockets, paths: &r.paths, drops: &r.drops, counters: &r.counters, dirty: &r.dirty}
	if r.sockets.allowance = o.Allowance; r.sockets.allowance == nil {
		r.sockets.allowance = NewAllowance(now, r.identities.next())
	}
	r.sockets.replies = newReplies(r.identities.next())
	r.arrange(now, s)
	r.Filter(now, s.Filter)
	return r
}

// arrange gives the Relay the listeners and routes of the settings. It keeps the state of present ones that stay.
func (r *Relay) arrange(now time.Time, s *Settings) {
	r.settings = s
	r.offload.rate, r.guard.settings = s.flowRate(), s
	r.sockets.unproved = &s.Unproved
	r.guard.limits = newLimits(s.Bounds, r.identities.next)
	r.guard.begin()
	r.walk(now, (*Relay).enrollAgain, nil)
	r.locals = make(locals)
	oldRoutes, oldListeners := r.routes, slices.Concat(r.listeners, r.retired.list)
	r.routes, r.listeners = nil, nil
	known := make(map[*Route]*route)
	for i := range s.Listeners {
		l := &s.Listeners[i]
		if known[l.Route] == nil {
			known[l.Route] = r.newRoute(l.Route, oldRoutes)
		}
		d := listenerOf(l, oldListeners)
		if d == nil {
			r.lastListener++
			d = &listener{index: r.lastListener}
		}
		r.configure(d, l, known[l.Route])
		r.listeners = append(r.listeners, d)
	}
	r.retired.retire(slices.DeleteFunc(oldListeners, func(d *listener) bool { return slices.Contains(r.listeners, d) }))
	r.paths.arrange(now, r.routes)
	if r.shard.index == 0 { // the siblings' listeners have the same Pongs
		r.addPingers(now)
		r.addCheckers(now)
	}
}

func (r *Relay) newRoute(settings *Route, oldRoutes []*route) *route {
	u := settings.Upstream
	pool := r.pools.Get(u.Name)
	pool.Update(u.Servers, u.Options)
	route := &route{Route: settings, speaks: r.locals.of(u.Protocol), pool: pool}
	for _, old := range oldRoutes {
		if old.Name == settings.Name {
			route.ids = old.ids
		}
	}
	if route.ids == nil {
		route.ids = newClientIDs(r.shard, r.identities.secret())
	}
	r.routes = append(r.routes, route)
	return route
}

// Receive handles a datagram that came in by one of the Relay's sockets.
func (r *Relay) Receive(now time.Time, s netio.Socket, from netip.AddrPort, datagram []byte) {
	switch owner := s.Owner().(type) {
	case *listener:
		r.counters.Clients.In.Count(datagram)
		r.fromClient(now, owner, s, from, datagram)
	case *entry:
		r.counters.Upstreams.In.Count(datagram)
		if owner.Value.isRelayed() {
			r.passDown(now, owner, datagram)
		} else {
			r.fromUpstream(now, owner, datagram)
		}
	case *closingConn:
		r.closing.receive(now, owner, datagram, r)
	case *checked:
		owner.heard(now, r, datagram)
	case *pinged:
		owner.answered(now, r, datagram)
	}
}

func (r *Relay) fromClient(now time.Time, d *listener, s netio.Socket, from netip.AddrPort, datagram []byte) {
	r.backlog.count(now)
	if d.proxies != nil {
		var ok bool
		if from, datagram, ok = r.unwrapProxied(now, d, from, datagram); !ok {
			return
		}
	}
	switch {
	case len(datagram) == 0:
		r.drops.add(now, dropped{stats.DropEmpty, d, from, 0, nil})
		return
	case from.Port() == 0:
		r.drops.add(now, dropped{stats.DropSourcePort, d, from, len(datagram), nil})
		return
	}
	sheds := r.backlog.sheds()
	if sheds && d.first.Opens(datagram[0]) { // it counts as a stranger's, also from a client's address
		r.drops.shed(now, &r.backlog, d, from, len(datagram))
		return
	}
	e := r.table.Get(sessions.Key{Listener: d.index, Client: from})
	switch {
	case e == nil && sheds:
		r.drops.shed(now, &r.backlog, d, from, len(datagram))
	case e == nil:
		r.newcomer(now, d, s, from, datagram)
	case !e.Value.isRelayed():
		r.fromTerminated(now, e, s, datagram)
	case r.guard.mayRelay(now, d, &e.Value.meter, from, len(datagram)):
		r.passUp(now, e, datagram)
	}
}

// fromTerminated handles a datagram of a terminated session's client.
func (r *Relay) fromTerminated(now time.Time, e *entry, s netio.Socket, datagram []byte) {
	p, d, from := &e.Value, e.Value.listener, e.Key.Client
	if d.stream && p.face != s {
		// The client's last session is still saying goodbye to the upstream. The client may connect again.
		r.drops.add(now, dropped{stats.DropClosing, d, from, len(datagram), nil})
		s.Close()
		return
	}
	if p.client.Down { // the session is ending
		r.drops.add(now, dropped{stats.DropUnexpected, d, from, len(datagram), codec.ErrClosed})
		return
	}
	if !r.guard.mayPass(now, d, &p.meter, from, len(datagram)) {
		return
	}
	p.via = d.via(p.via)
	p.trust.owe(from, len(datagram))
	connected := p.client.up
	r.backlog.excuse(now, p.client.Conn)
	err := p.client.Conn.Receive(now, datagram)
	if err == nil {
		p.heard = now // a refused datagram may be forged, and is no sign of life
	} else {
		r.drops.add(now, dropped{stats.DropOf(err), d, from, len(datagram), err})
	}
	r.settle(now, e)
	if err == nil {
		r.accepted(now, e, len(datagram))
		r.table.reviewTrust(e, &r.known, connected)
	}
}

func (r *Relay) fromUpstream(now time.Time, e *entry, datagram []byte) {
	p := &e.Value
	p.refused = 0
	datagram = p.preamble.heard(datagram)
	if !p.upstream.Live() {
		r.drops.add(now, dropped{stats.DropUnexpected, p.listener, p.server.Addr, len(datagram), codec.ErrClosed})
		return
	}
	var err error
	drop := stats.DropEmpty
	if len(datagram) > 0 {
		err = p.upstream.Conn.Receive(now, datagram)
		drop = stats.DropOf(err)
	}
	if err != nil || len(datagram) == 0 {
		r.drops.add(now, dropped{drop, p.listener, p.server.Addr, len(datagram), err})
	} else if p.upstream.up {
		p.server.Heard(now)
	}
	r.settle(now, e)
	r.redial(now, e)
}

// refusals is how many times in a row the host of an established session's server may report a closed port. Then the
// Relay believes it.
const refusals = 3

// Failed handles the news that the peer of a dialled socket cannot be reached, or that a stream has ended.
func (r *Relay) Failed(now time.Time, s netio.Socket, _ error) {
	switch owner := s.Owner().(type) {
	case *listener:
		// A datagram socket made by part only reports that one of our datagrams did not arrive.
		e := r.table.Get(sessions.Key{Listener: owner.index, Client: s.Peer()})
		if owner.stream && e != nil && !e.Value.isRelayed() && e.Value.face == s {
			r.abandonClient(now, e)
		}
	case *entry:
		p := &owner.Value
		if p.isRelayed() {
			r.refusedRelayed(now, owner)
			return
		}
		p.refused++
		believed := !p.upstream.up || p.refused >= refusals || p.route.Upstream.Transport.Stream
		if p.upstream.Live() && believed {
			r.abandonUpstream(now, owner)
		}
	case *checked:
		owner.refused(now, r)
	}
}

// Flush writes the datagrams that the sessions have to send since the last Flush.
func (r *Relay) Flush(now time.Time) {
	r.sockets.clear(now)
	// A session that is marked meanwhile is appended, and so visited too.
	for i := 0; i < len(r.dirty); i++ {
		e := r.dirty[i]
		r.dirty[i] = nil
		if e.Value.forgotten {
			continue
		}
		e.Value.dirty = false
		r.sendJoined(now, e)
		e.Value.press(now)
		r.transmit(now, e)
		r.judgeQueue(now, e)
		if r.poll(now, e) {
			r.dirty.mark(e) // the results must be written too
			continue
		}
		if e.Value.over() && !e.Value.waits {
			r.forget(now, e)
			continue
		}
		r.samples.sample(now, &e.Value)
		r.table.Schedule(e, now, e.Value.patience(nextTimeout(&e.Value, r.settings)))
	}
	r.dirty = r.dirty[:0]
}

// transmit writes the datagrams of both sides of a session.
func (r *Relay) transmit(now time.Time, e *entry) {
	p := &e.Value
	for {
		b, ok := p.client.Conn.Transmit(now, p.via.begin(r.sockets.Buffer()))
		if !ok {
			break
		}
		r.sockets.sendToClient(now, e, b)
	}
	if p.upstream.Conn == nil || p.socket == nil {
		return
	}
	r.sockets.sendUp(now, e)
}

// marked has the sessions that the next Flush visits.
type marked []*entry

// mark puts a session on the list for the next Flush.
func (l *marked) mark(e *entry) {
	if !e.Value.dirty {
		e.Value.dirty = true
		*l = append(*l, e)
	}
}
