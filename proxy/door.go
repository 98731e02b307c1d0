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

// door is a listener as a Relay sees it.
type door struct {
	index     int // in the keys of its sessions; never another door's
	name      string
	addr      netip.AddrPort // as in the settings
	transport Transport
	stream    bool // each client has a socket of its own
	ways      []way
	route     *route

	drops   *stats.DropTally
	answers *ratelimit.Budget // nil: not bounded
	pong    *Pong             // nil: none is made
	port    uint16            // where players come to

	fronts *fronts // nil: clients come by themselves
	first  shield.FirstBytes

	forwardable bool // a Forwarder may carry its sessions

	socket   netio.Socket
	sessions int
	retired  bool // the settings do not have it any more: it takes no new clients
}

// way is a protocol clients may speak at a door.
type way struct {
	protocol  codec.Protocol
	bridge    *bridge.Bridge
	tally     *stats.Tally
	proof     codec.Proof // of its clients' addresses
	asksFirst bool        // the server is asked before a client is granted its connection
}

// doorOf finds the door of a listener, which is known by its address and transport, or returns nil.
func doorOf(l *Listener, doors []*door) *door {
	for _, d := range doors {
		if d.addr == l.Addr && d.transport == l.Transport {
			return d
		}
	}
	return nil
}

// configure makes a door that of a listener. Its sessions keep what they have.
func (r *Relay) configure(d *door, l *Listener, route *route) {
	if l.Pong != nil && d.pong != nil && r.shard.index == 0 {
		l.Pong.listing.Store(d.pong.listing.Load()) // until the servers have been asked again
	}
	d.name, d.addr, d.transport, d.stream, d.retired = l.Name, l.Addr, l.Transport, l.Transport.Stream, false
	d.route, d.pong, d.answers, d.ways = route, l.Pong, nil, nil
	d.first = l.FirstBytes()
	d.forwardable = r.settings.Forwardable(l) == nil
	d.drops = r.tallies.DropsOf(l.Name)
	if r.settings.Answers.Overall > 0 && !d.stream {
		d.answers = ratelimit.NewBudget(r.settings.Answers, r.identities.next())
	}
	d.fronts = newFronts(l.ProxiesFrom, r.settings.Limits.Sessions+r.settings.Limits.HalfOpen, d.fronts)
	for _, p := range l.Protocols {
		proof := proofOf(p, d.stream)
		d.ways = append(d.ways, way{
			protocol:  r.locals.of(p),
			bridge:    bridge.New(p, l.Route.Upstream.Protocol, &l.Route.Bridge),
			asksFirst: l.Route.asksFirst(p),
			proof:     proof,
			tally:     r.tallies.Of(l.Name, p.Spec().Name),
		})
	}
}

// pinger is the first of the door's protocols that has server lists, or nil.
func (d *door) pinger() codec.Pinger {
	for i := range d.ways {
		if p, ok := d.ways[i].protocol.(codec.Pinger); ok {
			return p
		}
	}
	return nil
}

// Attach gives the Relay the socket of a listener. The streams that it accepts must have its Owner.
func (r *Relay) Attach(listener int, s netio.Socket) {
	d := r.doors[listener]
	d.socket, d.port = s, s.Addr().Port()
	s.SetOwner(d)
}

// retire takes the doors that the settings do not have any more out of service. A UDP socket serves the sessions that are
// there, and the door comes back with its listener. The streams that a door has accepted live on without its socket.
func (r *Relay) retire(gone []*door) {
	r.retired = gone
	for _, d := range gone {
		d.retired = true
	}
	r.retired = slices.DeleteFunc(r.retired, func(d *door) bool {
		if d.stream {
			d.socket.Close()
		}
		return d.stream
	})
	if len(r.empty()) > 0 {
		r.deserted()
	}
}

// left notes that a session of a door has ended.
func (r *Relay) left(d *door) {
	d.sessions--
	if d.retired && !d.stream && d.sessions == 0 {
		r.deserted()
	}
}

// empty returns the indexes of the retired doors without sessions.
func (r *Relay) empty() (indexes []int) {
	for _, d := range r.retired {
		if d.sessions == 0 {
			indexes = append(indexes, d.index)
		}
	}
	return indexes
}

// closeRetired closes retired doors for good.
func (r *Relay) closeRetired(indexes []int) {
	r.retired = slices.DeleteFunc(r.retired, func(d *door) bool {
		closes := slices.Contains(indexes, d.index)
		if closes {
			d.socket.Close()
		}
		return closes
	})
}
