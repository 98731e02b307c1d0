package relay

import "tidegate/ratelimit"

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
