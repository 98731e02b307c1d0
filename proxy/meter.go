package proxy

import (
	"net/netip"

	"tidegate/ratelimit"
)

// node counts what belongs together for limits: a session, the sessions of an address or a network, or all of them.
type node struct {
	sessions int
	queued   int                                              // bytes
	buckets  [ratelimit.ReliableMessages + 1]ratelimit.Bucket // by quantity; that of handshakes is not used
}

// meter is what limits know of a session. Only sessions fill what established sessions are judged by: what strangers
// send in the name of an address counts apart.
type meter struct {
	own              node
	address, network *node // nil while no limit asks for them
}

// at is the node of a scope.
func (g *guard) at(m *meter, s ratelimit.Scope) *node {
	switch s {
	case ratelimit.PerSession:
		return &m.own
	case ratelimit.PerAddress:
		return m.address
	case ratelimit.PerNetwork:
		return m.network
	}
	return &g.all
}

// enroll counts a session among those of its address and network.
func (g *guard) enroll(m *meter, from netip.Addr) {
	m.own.sessions = 1
	g.all.sessions++
	if g.limits.shared {
		m.address = join(g.addresses, from.Unmap(), m)
		m.network = join(g.networks, g.settings.Networks.Of(from), m)
	}
}

// discharge forgets a session. The nodes of an address live as long as its sessions.
func (g *guard) discharge(m *meter, from netip.Addr) {
	g.all.sessions--
	g.all.queued -= m.own.queued
	if m.address != nil {
		leave(g.addresses, from.Unmap(), m.address, m)
		leave(g.networks, g.settings.Networks.Of(from), m.network, m)
	}
}

// enrollAnew counts all sessions as the present limits want it.
func (g *guard) enrollAnew() {
	g.all, g.addresses, g.networks = node{}, make(map[netip.Addr]*node), make(map[netip.Prefix]*node)
	for e := range g.table.All {
		m := &e.Value.meter
		m.address, m.network = nil, nil
		if !e.Value.isRelayed() {
			e.Value.choked = false
		}
		g.all.queued += m.own.queued
		g.enroll(m, e.Key.Client.Addr())
	}
}

func join[K comparable](nodes map[K]*node, k K, m *meter) *node {
	n := nodes[k]
	if n == nil {
		n = new(node)
		nodes[k] = n
	}
	n.sessions++
	n.queued += m.own.queued
	return n
}

func leave[K comparable](nodes map[K]*node, k K, n *node, m *meter) {
	n.queued -= m.own.queued
	if n.sessions--; n.sessions == 0 {
		delete(nodes, k)
	}
}
