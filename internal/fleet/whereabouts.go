package fleet

import (
	"slices"
	"sync"
	"time"

	"tidegate/internal/stray"
)

// Bounds and times of whereabouts. Tests lower the variable.
const (
	silentAfter = 3 * time.Second // no datagram is passed on to a node that was silent for so long
	forgetAfter = reportLife      // the players of such a node are forgotten
	lockedKeys  = 256             // that one hold of the lock changes: loops wait for it
)

var maxPlayers = 1 << 20 // of all other nodes

// whereabouts knows which other node has a player's session. One goroutine changes it. Loops ask it.
type whereabouts struct {
	mu    sync.RWMutex
	of    map[stray.Key]uint16 // the slot of the node
	slots map[uint16]*playerNode
	nodes map[string]*playerNode
	next  uint16 // the next slot to try
}

// playerNode is another node with its players.
type playerNode struct {
	name     string
	instance string // of its process
	number   uint64 // of its last message
	heard    time.Time
	silent   bool
	slot     uint16 // its players' slot
	older    uint16 // that of the set before; 0: none
}

func newWhereabouts() *whereabouts {
	return &whereabouts{
		of: make(map[stray.Key]uint16), slots: make(map[uint16]*playerNode), nodes: make(map[string]*playerNode),
	}
}

// find returns the node that has a player's session, or nothing.
func (w *whereabouts) find(key stray.Key) (node string, ok bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	slot, ok := w.of[key]
	if !ok {
		return "", false
	}
	n := w.slots[slot]
	if n == nil || n.silent {
		return "", false
	}
	return n.name, true
}

// has reports whether a node has a player's session. A silent node counts: its answers may be late.
func (w *whereabouts) has(node string, key stray.Key) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	slot, ok := w.of[key]
	return ok && w.slots[slot] != nil && w.slots[slot].name == node
}

// knows reports whether a node has told its players.
func (w *whereabouts) knows(node string) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.nodes[node] != nil
}

// awake returns the nodes that are not silent.
func (w *whereabouts) awake() (all []string) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for name, n := range w.nodes {
		if !n.silent {
			all = append(all, name)
		}
	}
	return all
}

func (w *whereabouts) len() (nodes, players int) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return len(w.nodes), len(w.of)
}

// take merges a node's message. It returns whether the whole set of the node is wanted, and whether the node was not
// known yet.
func (w *whereabouts) take(now time.Time, node string, m *playerSet) (wanted, isNew bool, err error) {
	n := w.nodes[node]
	switch {
	case !isName(node, maxNode):
		return false, false, errNode
	case n == nil && len(w.nodes) >= maxNodes:
		return false, false, errRoom
	case n != nil && n.instance == m.instance && m.number <= n.number:
		return false, false, errOldNews
	}
	isNew = n == nil || n.instance != m.instance
	switch {
	case n == nil:
		n = w.meet(node)
	case isNew:
		w.renew(n)
	}
	wanted = (isNew || m.number != n.number+1) && !m.begins // a message is missing
	n.instance = m.instance
	w.mu.Lock()
	n.number, n.heard, n.silent = m.number, now, false
	if m.begins && n.older == 0 {
		n.older, n.slot = n.slot, w.newSlot(n)
	}
	w.mu.Unlock()
	full := w.add(n, m.opened)
	w.remove(n, m.closed)
	if m.ends && n.older != 0 {
		w.sweep(n.older)
		n.older = 0
	}
	if full {
		return wanted, isNew, errRoom
	}
	return wanted, isNew, nil
}

// meet notes a node without players.
func (w *whereabouts) meet(node string) *playerNode {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := &playerNode{name: node}
	w.nodes[node], n.slot = n, w.newSlot(n)
	return n
}

// renew notes that a node has another process, often after an upgrade. It keeps its players until the process has told
// the whole set: as strangers, they would join anew.
func (w *whereabouts) renew(n *playerNode) {
	if n.older != 0 {
		w.sweep(n.older)
	}
	w.mu.Lock()
	n.older, n.slot = n.slot, w.newSlot(n)
	w.mu.Unlock()
}

// newSlot makes a slot for a node's set. There are far more slots than nodes.
func (w *whereabouts) newSlot(n *playerNode) uint16 {
	for w.next++; w.next == 0 || w.slots[w.next] != nil; w.next++ {
	}
	w.slots[w.next] = n
	return w.next
}

// add notes a node's players. It reports whether there were too many.
func (w *whereabouts) add(n *playerNode, all []stray.Key) (full bool) {
	for part := range slices.Chunk(all, lockedKeys) {
		w.mu.Lock()
		for _, key := range part {
			if _, ok := w.of[key]; !ok && len(w.of) >= maxPlayers {
				full = true
				continue
			}
			w.of[key] = n.slot // the last one that claims a player has it
		}
		w.mu.Unlock()
	}
	return full
}

func (w *whereabouts) remove(n *playerNode, all []stray.Key) {
	for part := range slices.Chunk(all, lockedKeys) {
		w.mu.Lock()
		for _, key := range part {
			if slot, ok := w.of[key]; ok && w.slots[slot] == n {
				delete(w.of, key)
			}
		}
		w.mu.Unlock()
	}
}

// sweep forgets the players of a slot, and frees it.
func (w *whereabouts) sweep(slot uint16) {
	gone := make([]stray.Key, 0, lockedKeys)
	drop := func() {
		w.mu.Lock()
		for _, key := range gone {
			delete(w.of, key)
		}
		w.mu.Unlock()
		gone = gone[:0]
	}
	for key, at := range w.of { // without the lock: this goroutine alone changes it
		if at != slot {
			continue
		}
		if gone = append(gone, key); len(gone) == lockedKeys {
			drop()
		}
	}
	drop()
	w.mu.Lock()
	delete(w.slots, slot)
	w.mu.Unlock()
}

// forget forgets a node with its players.
func (w *whereabouts) forget(node string) {
	n := w.nodes[node]
	if n == nil {
		return
	}
	w.mu.Lock()
	n.silent = true
	delete(w.nodes, node)
	w.mu.Unlock()
	w.sweep(n.slot)
	if n.older != 0 {
		w.sweep(n.older)
	}
}

// expire notes which nodes are silent, and forgets nodes that have been so for long.
func (w *whereabouts) expire(now time.Time) {
	for name, n := range w.nodes {
		switch silence := now.Sub(n.heard); {
		case silence >= forgetAfter:
			w.forget(name)
		case silence >= silentAfter && !n.silent:
			w.mu.Lock()
			n.silent = true
			w.mu.Unlock()
		}
	}
}
