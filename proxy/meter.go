package proxy

import (
	"net/netip"

	"tidegate/ratelimit"
)

// node counts for limits. It stands for one session, the sessions of one address or network, or all sessions.
type node struct {
	sessions int
	queued   int                                              // bytes that wait
	buckets  [ratelimit.ReliableMessages + 1]ratelimit.Bucket // by quantity; the one of handshakes is not used
}

// meter is a session's state for limits. Only datagrams of sessions fill these buckets. A stranger's datagrams with a
// forged address count elsewhere.
type meter struct {
	own              node
	address, network *node // nil while no limit needs them
}

// at returns the node of a scope.
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

// enroll counts a session at its address and its network.
func (g *guard) enroll(m *meter, from netip.Addr) {
	m.own.sessions = 1
	g.all.sessions++
	if g.limits.shared {
		m.address = join(g.addresses, from.Unmap(), m)
		m.network = join(g.networks, g.settings.Networks.Of(from), m)
	}
}

// discharge stops counting a session. The node of an address lives as long as sessions of the address.
func (g *guard) discharge(m *meter, from netip.Addr) {
	g.all.sessions--
	g.all.queued -= m.own.queued
	if m.address != nil {
		leave(g.addresses, from.Unmap(), m.address, m)
		leave(g.networks, g.settings.Networks.Of(from), m.network, m)
	}
}

// enrollAnew counts all sessions again, after the limits have changed.
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
