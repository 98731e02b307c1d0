package fleet

import (
	"context"
	"sync"
	"time"

	"tidegate/internal/pause"
	"tidegate/internal/stray"
)

// Bounds of datagrams that are passed on. They are counted by second.
const (
	mostOfPlayer  = 1000    // datagrams of one player
	mostPassed    = 200_000 // datagrams of all
	maxPassing    = 1 << 16 // players
	budgetsPeriod = time.Second
)

// outboxes have the datagrams that wait for a node, for a moment. Loops fill them; one goroutine empties them.
type outboxes struct {
	node string
	wake chan struct{}

	mu     sync.Mutex // held for a copy of a datagram
	boxes  map[string][]byte
	spare  [][]byte
	budget budget

	passed, late, tooMany uint64
}

// budget counts the datagrams of a second.
type budget struct {
	until time.Time
	spent int
	of    map[stray.Key]uint16
}

func newOutboxes(node string) *outboxes {
	return &outboxes{
		node: node, wake: make(chan struct{}, 1), boxes: make(map[string][]byte),
		budget: budget{of: make(map[stray.Key]uint16)},
	}
}

// takes takes a datagram out of the budget. It reports whether it was in there.
func (b *budget) takes(now time.Time, key stray.Key) bool {
	if !now.Before(b.until) {
		b.until, b.spent, b.of = now.Add(budgetsPeriod), 0, make(map[stray.Key]uint16)
	}
	n, known := b.of[key]
	if b.spent >= mostPassed || n >= mostOfPlayer || !known && len(b.of) >= maxPassing {
		return false
	}
	b.spent++
	b.of[key] = n + 1
	return true
}

// pass puts a player's datagram into the outbox of a node, within the budgets.
func (o *outboxes) pass(now time.Time, node string, key stray.Key, d *stray.Datagram) {
	o.mu.Lock()
	fits := o.budget.takes(now, key)
	if !fits {
		o.tooMany++
	}
	o.mu.Unlock()
	if fits && o.put(node, d, false) {
		o.mu.Lock()
		o.passed++
		o.mu.Unlock()
	}
}

// lose counts a datagram that cannot be passed on now.
func (o *outboxes) lose() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.late++
}

// put puts a datagram into the outbox of a node. It reports whether there was room.
func (o *outboxes) put(node string, d *stray.Datagram, answer bool) bool {
	o.mu.Lock()
	box := o.boxes[node]
	first := len(box) == 0
	if first {
		if n := len(o.spare); n > 0 {
			box, o.spare = o.spare[n-1], o.spare[:n-1]
		}
		box = stray.Begin(box[:0], o.node)
	}
	box, fits := stray.Append(box, d, answer)
	if o.boxes[node] = box; !fits {
		o.late++
	}
	o.mu.Unlock()
	if first {
		signal(o.wake)
	}
	return fits
}

// run sends what the outboxes have, until ctx is done. A batch grows while the one before is sent.
func (o *outboxes) run(ctx context.Context, send func(node string, batch []byte)) {
	type full struct {
		node  string
		batch []byte
	}
	var all []full
	for range pause.On(ctx, o.wake) {
		all = all[:0]
		o.mu.Lock()
		for node, batch := range o.boxes {
			if node != limbo {
				all = append(all, full{node, batch})
				delete(o.boxes, node)
			}
		}
		o.mu.Unlock()
		for _, f := range all {
			send(f.node, f.batch)
			if f.node == o.node {
				continue // the loops have it
			}
			o.mu.Lock()
			o.spare = append(o.spare, f.batch)
			o.mu.Unlock()
		}
	}
}

// take takes a node's batch out of its outbox; nil: it is empty.
func (o *outboxes) take(node string) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	batch := o.boxes[node]
	delete(o.boxes, node)
	return batch
}

func (o *outboxes) counts() (passed, late, tooMany uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.passed, o.late, o.tooMany
}
