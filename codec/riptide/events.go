package riptide

import "tidegate/codec"

// events are what Poll has yet to return. The Order law bounds them: one input's events, at most one for each receipt.
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

// relax gives up memory when nothing waits.
func (e *events) relax() {
	if e.read == len(e.queue) {
		*e = events{}
	}
}
