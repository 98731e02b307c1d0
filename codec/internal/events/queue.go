// Package events holds the queue of events that every codec has.
package events

import "tidegate/codec"

// kept is how many events the queue keeps room for once it has been emptied: a burst's memory is given back.
const kept = 512

// Queue is what Poll has yet to return, first in, first out. The contract's order law bounds it: the events of one input,
// and one for each receipt. The zero value is an empty queue without memory.
type Queue struct {
	list []codec.Event
	next int
}

// Push adds an event.
func (q *Queue) Push(event codec.Event) { q.list = append(q.list, event) }

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
		return codec.Event{}, false
	}
	q.next++
	return q.list[q.next-1], true
}

// Len is how many events wait.
func (q *Queue) Len() int { return len(q.list) - q.next }

// Room is how many events the queue holds memory for.
func (q *Queue) Room() int { return cap(q.list) }

// Release gives all memory back if nothing waits.
func (q *Queue) Release() {
	if q.Len() == 0 {
		*q = Queue{}
	}
}
