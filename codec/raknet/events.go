package raknet

import "tidegate/codec"

// keptEvents is how many events the queue keeps room for once it has been emptied: as many as a datagram can bring, and
// a good many more.
const keptEvents = 1024

// events is a first-in, first-out queue of what Poll returns. It is empty between two inputs, so it starts over then.
type events struct {
	list []codec.Event
	next int
}

func (e *events) push(event codec.Event) { e.list = append(e.list, event) }

func (e *events) poll() (codec.Event, bool) {
	if e.next == len(e.list) {
		e.list, e.next = e.list[:0], 0
		if cap(e.list) > keptEvents {
			e.list = nil
		}
		return codec.Event{}, false
	}
	e.next++
	return e.list[e.next-1], true
}

func (e *events) empty() bool { return e.next == len(e.list) }
