package fleet

import (
	"encoding/binary"
	"time"

	"tidegate/internal/stray"
)

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
		keys := make([]stray.Key, 0, len(from.Keys)/8)
		for key := range from.all {
			keys = append(keys, key)
		}
		w.add(n, keys) // those without room are strangers
	}
}
