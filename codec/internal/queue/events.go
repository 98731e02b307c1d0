// Package queue holds the queue of events that every codec has.
package queue

import "tidegate/codec"

// kept is how many events the queue keeps room for once it has been emptied: a burst's memory is given back.
const kept = 512

// Events are what Poll has yet to return, first in, first out. The contract's order law bounds them: those of one input,
// and one for each receipt. The zero value is an empty queue without memory.
type Events struct {
	list []codec.Event
	next int
}

// Push adds an event.
func (e *Events) Push(event codec.Event) { e.list = append(e.list, event) }

// Answer adds the answer to a receipt.
func (e *Events) Answer(r codec.Receipt, delivered bool) {
	kind := codec.Lost
	if delivered {
		kind = codec.Delivered
	}
	e.Push(codec.Event{Kind: kind, Message: codec.Message{Receipt: r}})
}

// Poll takes the oldest event.
func (e *Events) Poll() (codec.Event, bool) {
	if e.Len() == 0 {
		e.list, e.next = e.list[:0], 0
		if cap(e.list) > kept {
			e.list = nil
		}
		return codec.Event{}, false
	}
	e.next++
	return e.list[e.next-1], true
}

// Len is how many events wait.
func (e *Events) Len() int { return len(e.list) - e.next }

// Room is how many events the queue holds memory for.
func (e *Events) Room() int { return cap(e.list) }

// Release gives all memory back if nothing waits.
func (e *Events) Release() {
	if e.Len() == 0 {
		*e = Events{}
	}
}
