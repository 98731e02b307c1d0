package proxy

import (
	"net/netip"
	"slices"

	"tidegate/codec"
	"tidegate/internal/kernel/shield"
	"tidegate/internal/netio"
	"tidegate/proxy/bridge"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
)

// listener is the Relay's state about one Listener.
type listener struct {
	index     int // in the keys of its sessions; never used again for another listener
	name      string
	addr      netip.AddrPort // as in the settings
	transport Transport
	stream    bool // each client has a socket of its own
	entries   []protocolEntry
	route     *route

	drops   *stats.DropTally
	answers *ratelimit.Budget // nil: not bounded
	pong    *Pong             // nil: none
	port    uint16            // the port of clients' datagrams

	proxies *trustedProxies // nil: no trusted proxies
	first   shield.FirstBytes

	forwardable bool // a Forwarder may forward its sessions

	socket   netio.Socket
	sessions int
	retired  bool // removed from the settings: it takes no new clients
}

// protocolEntry is one protocol of a listener.
type protocolEntry struct {
	protocol  codec.Protocol
	bridge    *bridge.Bridge
	tally     *stats.Tally
	proof     codec.Proof // of its clients' addresses
	asksFirst bool        // the server is asked before a client is granted its connection
}

// listenerOf finds the listener of a Listener by address and transport, or returns nil.
func listenerOf(l *Listener, listeners []*listener) *listener {
	for _, d := range listeners {
		if d.addr == l.Addr && d.transport == l.Transport {
			return d
		}
	}
	return nil
}

// configure gives a listener its new settings. Its sessions keep theirs.
func (r *Relay) configure(d *listener, l *Listener, route *route) {
	if l.Pong != nil && d.pong != nil && r.shard.index == 0 {
		l.Pong.listing.Store(d.pong.listing.Load()) // until the servers have answered again
	}
	d.name, d.addr, d.transport, d.stream, d.retired = l.Name, l.Addr, l.Transport, l.Transport.Stream, false
	d.route, d.pong, d.answers, d.entries = route, l.Pong, nil, nil
	d.first = l.FirstBytes()
	d.forwardable = r.settings.Forwardable(l) == nil
	d.drops = r.tallies.DropsOf(l.Name)
	if r.settings.Answers.Overall > 0 && !d.stream {
		d.answers = ratelimit.NewBudget(r.settings.Answers, r.identities.next())
	}
	d.proxies = newTrustedProxies(l.ProxiesFrom, r.settings.Limits.Sessions+r.settings.Limits.HalfOpen, d.proxies)
	for _, p := range l.Protocols {
		proof := proofOf(p, d.stream)
		d.entries = append(d.entries, protocolEntry{
			protocol:  r.locals.of(p),
			bridge:    bridge.New(p, l.Route.Upstream.Protocol, &l.Route.Bridge),
			asksFirst: l.Route.asksFirst(p),
			proof:     proof,
			tally:     r.tallies.Of(l.Name, p.Spec().Name),
		})
	}
}

// pinger returns the listener's first protocol with server lists, or nil.
func (d *listener) pinger() codec.Pinger {
	for i := range d.entries {
		if p, ok := d.entries[i].protocol.(codec.Pinger); ok {
			return p
		}
	}
	return nil
}

// Attach gives the Relay the socket of a listener. Streams accepted by the socket must have its Owner.
func (r *Relay) Attach(listener int, s netio.Socket) {
	d := r.listeners[listener]
	d.socket, d.port = s, s.Addr().Port()
	s.SetOwner(d)
}

// retiredListeners are removed UDP listeners that still have sessions.
type retiredListeners struct {
	list     []*listener
	deserted func() // called when a retired listener has lost its last session
}

// retire takes removed listeners out of service. A UDP socket still serves its sessions, and a reload can put the
// listener back. Streams that a listener has accepted live on without its socket.
func (l *retiredListeners) retire(gone []*listener) {
	l.list = gone
	for _, d := range gone {
		d.retired = true
	}
	l.list = slices.DeleteFunc(l.list, func(d *listener) bool {
		if d.stream {
			d.socket.Close()
		}
		return d.stream
	})
	if len(l.empty()) > 0 {
		l.deserted()
	}
}

// left notes that a session of a listener has ended.
func (l *retiredListeners) left(d *listener) {
	d.sessions--
	if d.retired && !d.stream && d.sessions == 0 {
		l.deserted()
	}
}

// empty returns the indexes of the retired listeners without sessions.
func (l *retiredListeners) empty() (indexes []int) {
	for _, d := range l.list {
		if d.sessions == 0 {
			indexes = append(indexes, d.index)
		}
	}
	return indexes
}

// close closes the sockets of retired listeners.
func (l *retiredListeners) close(indexes []int) {
	l.list = slices.DeleteFunc(l.list, func(d *listener) bool {
		closes := slices.Contains(indexes, d.index)
		if closes {
			d.socket.Close()
		}
		return closes
	})
}
