// Package events holds the event queue that every codec uses.
package events

import "tidegate/codec"

// kept is the number of events for which an emptied queue keeps memory. It frees the memory of a larger burst.
const kept = 512

// Queue holds the events that Poll has yet to return, first in, first out. The contract's order law bounds it: the
// events of one input, and one event for each receipt. The zero value is an empty queue without memory.
type Queue struct {
	list []codec.Event
	next int
	pool *Pool // nil: the queue keeps its memory
}

// Pool is memory for events that the queues of a loop share. Queues are mostly empty, and then have none. So the memory
// is in the processor's cache when a queue needs it.
type Pool struct{ list []codec.Event }

// Share makes an empty queue use a pool.
func (q *Queue) Share(p *Pool) { q.pool = p }

// Push adds an event.
func (q *Queue) Push(event codec.Event) {
	if q.pool != nil && q.list == nil {
		q.list, q.pool.list = q.pool.list, nil
	}
	q.list = append(q.list, event)
}

// Answer adds the answer to a receipt.
func (q *Queue) Answer(r codec.Receipt, delivered bool) {
	kind := codec.Lost
	if delivered {
		kind = codec.Delivered
	}
	q.Push(codec.Event{Kind: kind, Message: codec.Message{Receipt: r}})
}

// Poll takes the oldest event.
func (q *Queue) Poll() (codec.Event, bool) {
	if q.Len() == 0 {
		q.list, q.next = q.list[:0], 0
		if cap(q.list) > kept {
			q.list = nil
		}
		if q.pool != nil && q.list != nil {
			q.pool.list, q.list = q.list, nil
		}
		return codec.Event{}, false
	}
	q.next++
	return q.list[q.next-1], true
}

// Len returns the number of waiting events.
func (q *Queue) Len() int { return len(q.list) - q.next }

// Room returns the number of events for which the queue holds memory.
func (q *Queue) Room() int { return cap(q.list) }

// Release frees all memory if no event waits.
func (q *Queue) Release() {
	if q.Len() == 0 {
		*q = Queue{pool: q.pool}
	}
}
