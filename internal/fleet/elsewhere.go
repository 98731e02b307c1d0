package fleet

import (
	"context"
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

// pending returns the players of other nodes, for a successor.
func (p *players) pending(ctx context.Context) (all []NodePlayers) {
	if p == nil || !p.runs.Load() {
		return nil
	}
	answer := make(chan []NodePlayers, 1)
	select {
	case p.asks <- func() { answer <- p.where.export() }:
		return <-answer
	case <-ctx.Done():
		return nil
	}
}

// HoldPlayers makes a successor's proxy drop the datagrams of other nodes' players until it joins the fleet: their
// protocols send again. It comes before the loops run. Without a predecessor that followed players it does nothing.
func HoldPlayers(o *Options) {
	if o.Players == nil || len(o.Pending.Players) == 0 {
		return
	}
	o.Players.HoldForFleet(hold(time.Now(), o.Pending.Players), secretOf(o))
}

// holding stands for a fleet that the node is about to join. It ends with silent nodes, should the node not join.
type holding struct {
	keys  map[stray.Key]struct{}
	until time.Time
}

func hold(now time.Time, all []NodePlayers) *holding {
	h := &holding{keys: make(map[stray.Key]struct{}), until: now.Add(forgetAfter)}
	for i := range all {
		for key := range all[i].all {
			if len(h.keys) < maxPlayers {
				h.keys[key] = struct{}{}
			}
		}
	}
	return h
}

// holds reports whether a client is another node's player.
func (h *holding) holds(now time.Time, client stray.Key) bool {
	_, ok := h.keys[client]
	return ok && now.Before(h.until)
}

// PassOn implements stray.Carrier.
func (h *holding) PassOn(client stray.Key, _ *stray.Datagram) bool {
	return h.holds(time.Now(), client)
}

// PassHere implements stray.Carrier.
func (h *holding) PassHere(*stray.Datagram) {}

// Answer implements stray.Carrier.
func (h *holding) Answer(string, *stray.Datagram) {}

// Has implements stray.Carrier.
func (h *holding) Has(string, stray.Key) bool { return false }
