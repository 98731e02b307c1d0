package proxy

import (
	"net/netip"
	"time"

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
		return g.orNone(m.address)
	case ratelimit.PerNetwork:
		return g.orNone(m.network)
	}
	return &g.all
}

// orNone returns a node, or one without traffic for a session that is not enrolled since the limits have changed.
func (g *guard) orNone(n *node) *node {
	if n == nil {
		g.none = node{sessions: 1}
		return &g.none
	}
	return n
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

// begin begins to count anew, after the limits have changed. Each session must be enrolled again. Until then it
// counts at its old nodes, or at none.
func (g *guard) begin() {
	g.all.buckets = node{}.buckets
	g.addresses, g.networks = make(map[netip.Addr]*node), make(map[netip.Prefix]*node)
}

// enrollAgain counts a session at its address and its network, after the limits have changed.
func (r *Relay) enrollAgain(_ time.Time, e *entry) int {
	g, m, from := &r.guard, &e.Value.meter, e.Key.Client.Addr()
	if !e.Value.isRelayed() {
		e.Value.choked = false
	}
	switch {
	case !g.limits.shared:
		m.address, m.network = nil, nil
		return looked
	case m.address == nil || g.addresses[from.Unmap()] != m.address:
		m.address = join(g.addresses, from.Unmap(), m)
		m.network = join(g.networks, g.settings.Networks.Of(from), m)
	}
	return copied
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
	if n.sessions--; n.sessions == 0 && nodes[k] == n { // the limits may have changed since
		delete(nodes, k)
	}
}
