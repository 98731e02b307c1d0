package fleet

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// reportLife is the time for which the counts of a node hold after its last report.
const reportLife = 10 * time.Second

// maxCells bounds the servers of all nodes together, counted once for each node. A test lowers it.
var maxCells = 100_000

// account holds the last report of each other node, and their sum. It has no I/O and no clock.
type account struct {
	nodes map[string]*heard
	sum   map[gameServer]int // sessions of all other nodes; never 0
	cells int                // servers in all reports
}

// heard is a node's last report.
type heard struct {
	*report
	at time.Time // by this node's clock
}

func newAccount() account {
	return account{nodes: make(map[string]*heard), sum: make(map[gameServer]int)}
}

// take replaces a node's report. It reports whether the sum has changed.
func (a *account) take(now time.Time, node string, r *report) (changed bool, err error) {
	last := a.nodes[node]
	cells := len(r.Servers)
	switch {
	case !isName(node, maxNode):
		return false, errNode
	case last == nil && len(a.nodes) >= maxNodes:
		return false, errRoom
	case last != nil && last.Instance == r.Instance && r.Number <= last.Number:
		return false, errOldNews
	case last != nil:
		cells -= len(last.Servers)
	}
	if a.cells+cells > maxCells {
		return false, errRoom
	}
	if last != nil && slices.Equal(last.Servers, r.Servers) {
		a.nodes[node] = &heard{r, now}
		return false, nil
	}
	if last != nil {
		a.add(last.report, -1)
	}
	a.add(r, 1)
	a.nodes[node] = &heard{r, now}
	return true, nil
}

// add adds a report to the sum, or takes it away.
func (a *account) add(r *report, sign int) {
	a.cells += sign * len(r.Servers)
	for _, s := range r.Servers {
		key := gameServer{s.Upstream, s.Addr}
		if n := a.sum[key] + sign*s.Sessions; n != 0 {
			a.sum[key] = n
		} else {
			delete(a.sum, key)
		}
	}
}

// expire forgets nodes that have been silent for too long. It reports whether it has forgotten one.
func (a *account) expire(now time.Time) (changed bool) {
	for node, h := range a.nodes {
		if now.Sub(h.at) >= reportLife {
			a.add(h.report, -1)
			delete(a.nodes, node)
			changed = true
		}
	}
	return changed
}

// snapshot returns the sum by upstream and server.
func (a *account) snapshot() map[string]map[netip.AddrPort]int {
	all := make(map[string]map[netip.AddrPort]int)
	for s, n := range a.sum {
		if all[s.upstream] == nil {
			all[s.upstream] = make(map[netip.AddrPort]int)
		}
		all[s.upstream][s.addr] = n
	}
	return all
}

// Node is a node's account of its sessions.
type Node struct {
	Name      string
	Age       time.Duration // since its last report arrived
	Servers   []ServerCount // by upstream and address
	Protocols []ProtocolCount
}

// list returns the other nodes, by name.
func (a *account) list(now time.Time) []Node {
	all := make([]Node, 0, len(a.nodes)+1)
	for _, name := range slices.Sorted(maps.Keys(a.nodes)) {
		h := a.nodes[name]
		all = append(all, Node{name, now.Sub(h.at), h.Servers, h.Protocols})
	}
	return all
}

// inOrder sorts the servers of a node.
func inOrder(all []ServerCount) {
	slices.SortFunc(all, func(a, b ServerCount) int {
		return cmp.Or(cmp.Compare(a.Upstream, b.Upstream), a.Addr.Compare(b.Addr))
	})
}
