package admission

import (
	"net/netip"

	"tidegate/internal/source"
	"tidegate/ratelimit"
)

// Buckets have the use of limits, by quantity. The one of handshakes stays empty.
type Buckets [ratelimit.ReliableMessages + 1]ratelimit.Bucket

// node counts for limits. It stands for one session, the sessions of one address or network, or all sessions.
type node struct {
	sessions int
	queued   int // bytes that wait
	buckets  Buckets
}

// Meter is a session's state for limits. Only datagrams of sessions fill its buckets. A stranger's datagrams with a
// forged address count elsewhere.
type Meter struct {
	own              node
	address, network *node // nil while no limit needs them
}

// Buckets returns the buckets of the session, its address and its network. The last two are nil while no limit needs
// them.
func (m *Meter) Buckets() (own, address, network *Buckets) {
	if m.address == nil {
		return &m.own.buckets, nil, nil
	}
	return &m.own.buckets, &m.address.buckets, &m.network.buckets
}

// Overall returns the buckets of all sessions together.
func (g *Guard) Overall() *Buckets { return &g.all.buckets }

// Enroll counts a session at its address and its network.
func (g *Guard) Enroll(m *Meter, from netip.Addr) {
	m.own.sessions = 1
	g.all.sessions++
	if g.limits.shared {
		g.join(m, from)
	}
}

// EnrollAgain counts a session at its address and its network, after the limits have changed. It reports whether any
// limit needs that.
func (g *Guard) EnrollAgain(m *Meter, from netip.Addr) bool {
	switch {
	case !g.limits.shared:
		m.address, m.network = nil, nil
		return false
	case m.address == nil || g.byAddress[source.Of(from).Address()] != m.address:
		g.join(m, from)
	}
	return true
}

func (g *Guard) join(m *Meter, from netip.Addr) {
	of := source.Of(from)
	m.address, m.network = join(g.byAddress, of.Address(), m), join(g.byNetwork, of.Network(), m)
}

// Discharge stops counting a session. The node of an address lives as long as sessions of the address.
func (g *Guard) Discharge(m *Meter, from netip.Addr) {
	g.all.sessions--
	g.all.queued -= m.own.queued
	if m.address != nil {
		of := source.Of(from)
		leave(g.byAddress, of.Address(), m.address, m)
		leave(g.byNetwork, of.Network(), m.network, m)
	}
}

// Counts are the sizes of a Guard's tables.
type Counts struct {
	Sessions            int
	Queued              int // bytes that wait in them
	Addresses, Networks int // of sessions, while a limit needs them
	Debts               int // of sources, to other nodes of the fleet
}

// Counts returns the sizes of the Guard's tables.
func (g *Guard) Counts() Counts {
	return Counts{g.all.sessions, g.all.queued, len(g.byAddress), len(g.byNetwork), g.spending.debts.Len()}
}

// begin begins to count anew, after the limits have changed. Each session must be enrolled again. Until then it
// counts at its old nodes, or at none.
func (g *Guard) begin() {
	g.all.buckets = Buckets{}
	g.byAddress, g.byNetwork = make(map[netip.Prefix]*node), make(map[netip.Prefix]*node)
}

// at returns the node of a scope.
func (g *Guard) at(m *Meter, s ratelimit.Scope) *node {
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
func (g *Guard) orNone(n *node) *node {
	if n == nil {
		g.none = node{sessions: 1}
		return &g.none
	}
	return n
}

// count adds to the waiting bytes of a session and of all nodes that include it.
func (g *Guard) count(m *Meter, more int) {
	if more == 0 {
		return
	}
	m.own.queued += more
	g.all.queued += more
	if m.address != nil {
		m.address.queued += more
		m.network.queued += more
	}
}

func join[K comparable](nodes map[K]*node, k K, m *Meter) *node {
	n := nodes[k]
	if n == nil {
		n = new(node)
		nodes[k] = n
	}
	n.sessions++
	n.queued += m.own.queued
	return n
}

func leave[K comparable](nodes map[K]*node, k K, n *node, m *Meter) {
	n.queued -= m.own.queued
	if n.sessions--; n.sessions == 0 && nodes[k] == n { // the limits may have changed since
		delete(nodes, k)
	}
}
