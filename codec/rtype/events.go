package rtype

import "tidegate/codec"

// events are what Poll has yet to return. The Order law bounds those of one input, and maxReceipts those of Send.
type events struct {
	queue []codec.Event
	read  int
}

func (e *events) push(event codec.Event) {
	if e.read == len(e.queue) {
		e.queue, e.read = e.queue[:0], 0
	}
	e.queue = append(e.queue, event)
}

func (e *events) next() (codec.Event, bool) {
	if e.read == len(e.queue) {
		return codec.Event{}, false
	}
	e.read++
	return e.queue[e.read-1], true
}

// waiting is how many there are.
func (e *events) waiting() int { return len(e.queue) - e.read }
