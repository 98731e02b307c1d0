package fleet

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
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

// NodePlayers are the players of another node. A successor has them from its predecessor until the node tells them
// again: as strangers, some would join anew.
type NodePlayers struct {
	Node   string `json:"node"`
	Keys   []byte `json:"keys"` // eight bytes each
	Silent bool   `json:"silent,omitempty"`
}

func (n *NodePlayers) all(yield func(stray.Key) bool) {
	for b := n.Keys; len(b) >= 8; b = b[8:] {
		if !yield(stray.Key(binary.BigEndian.Uint64(b))) {
			return
		}
	}
}

// export returns the known nodes, and the players of all but silent nodes. A node without players may pass datagrams
// on, and so may a silent one.
func (w *whereabouts) export() (all []NodePlayers) {
	places := make(map[*playerNode]int)
	for name, n := range w.nodes { // without the lock: this goroutine alone changes them
		if !n.silent {
			places[n] = len(all)
		}
		all = append(all, NodePlayers{Node: name, Silent: n.silent})
	}
	for key, slot := range w.of {
		if i, ok := places[w.slots[slot]]; ok {
			all[i].Keys = binary.BigEndian.AppendUint64(all[i].Keys, uint64(key))
		}
	}
	return all
}

// inherit takes the players that a predecessor knew. Each node is asked for its own ones when it is heard.
func (w *whereabouts) inherit(now time.Time, all []NodePlayers) {
	for i := range all {
		from := &all[i]
		if !isName(from.Node, maxNode) || len(w.nodes) >= maxNodes || w.nodes[from.Node] != nil {
			continue
		}
		n := w.meet(from.Node)
		n.heard, n.silent = now, from.Silent
		w.add(n, slices.Collect(from.all)) // those without room are strangers
	}
}

// limbo is the outbox of datagrams for sessions that are between two nodes.
const limbo = ""

// going are the sessions that have left this node.
type going struct {
	busy  sync.Mutex  // held while sessions move
	some  atomic.Bool // there are sessions
	mu    sync.RWMutex
	to    map[stray.Key]string // the node that has the session; limbo: not decided
	moved atomic.Uint64
}

func (g *going) set(client stray.Key, node string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.to == nil {
		g.to = make(map[stray.Key]string)
	}
	g.to[client] = node
	g.some.Store(true)
}

func (g *going) remove(client stray.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.to, client)
	g.some.Store(len(g.to) > 0)
}

// find returns the node that a session has moved to.
func (g *going) find(client stray.Key) (node string, ok bool) {
	if !g.some.Load() {
		return "", false
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	node, ok = g.to[client]
	return node, ok
}

// Bounds of a message with players.
const (
	setForm    = 1       // the version
	maxSetKeys = 1 << 15 // players in a message: 256 KiB
	maxSets    = 1 << 6  // messages of a node's whole set
)

var errSet = errors.New("a list of players that no node sends")

// playerSet is what a node tells all others about its players: what has changed, or a part of the whole set.
type playerSet struct {
	instance       string // of the node's process
	number         uint64 // of the message; they have no gap
	begins, ends   bool   // a whole set
	opened, closed []stray.Key
}

// Flags of a message with players.
const (
	setBegins = 1 << iota
	setEnds
	setKnown = 1<<iota - 1
)

// format returns the message as other nodes read it. Its caller keeps the bounds.
func (m *playerSet) format() []byte {
	b := make([]byte, 0, 16+len(m.instance)+8*(len(m.opened)+len(m.closed)))
	flags := byte(0)
	if m.begins {
		flags |= setBegins
	}
	if m.ends {
		flags |= setEnds
	}
	b = append(b, setForm, flags, byte(len(m.instance)))
	b = append(b, m.instance...)
	b = binary.BigEndian.AppendUint64(b, m.number)
	b = binary.BigEndian.AppendUint32(b, uint32(len(m.opened)))
	for _, key := range m.opened {
		b = binary.BigEndian.AppendUint64(b, uint64(key))
	}
	for _, key := range m.closed {
		b = binary.BigEndian.AppendUint64(b, uint64(key))
	}
	return b
}

// parsePlayerSet reads a message. Its sender may be hostile: all parts are checked and bounded.
func parsePlayerSet(b []byte) (*playerSet, error) {
	const fixed = 3 + 8 + 4
	if len(b) < fixed || b[0] != setForm || b[1] > setKnown || len(b) < fixed+int(b[2]) {
		return nil, errSet
	}
	name := 3 + int(b[2]) // its end; as a byte it could wrap around
	m := &playerSet{begins: b[1]&setBegins != 0, ends: b[1]&setEnds != 0, instance: string(b[3:name])}
	rest := b[name:]
	m.number = binary.BigEndian.Uint64(rest)
	opened, keys := int(binary.BigEndian.Uint32(rest[8:])), rest[12:]
	if !isWord(m.instance) || m.number == 0 || len(keys)%8 != 0 || len(keys)/8 > maxSetKeys || opened > len(keys)/8 {
		return nil, errSet
	}
	all := make([]stray.Key, len(keys)/8)
	for i := range all {
		all[i] = stray.Key(binary.BigEndian.Uint64(keys[8*i:]))
	}
	m.opened, m.closed = all[:opened], all[opened:]
	return m, nil
}

// playerSets returns the messages for a node's changes, or for its whole set. beyond counts those without room.
func playerSets(opened, closed []stray.Key, whole bool) (all []*playerSet, beyond int) {
	if most := maxSets * maxSetKeys; len(opened) > most {
		opened, beyond = opened[:most], len(opened)-most
	}
	for part := range slices.Chunk(opened, maxSetKeys) {
		all = append(all, &playerSet{opened: part})
	}
	for part := range slices.Chunk(closed, maxSetKeys) {
		all = append(all, &playerSet{closed: part})
	}
	if len(all) == 0 {
		all = append(all, new(playerSet))
	}
	all[0].begins, all[len(all)-1].ends = whole, whole
	return all, beyond
}
