package rudp

import "tidegate/codec"

// keptEvents is how many events the queue keeps room for once it has been emptied.
const keptEvents = 256

// events are what Poll has yet to return. The order law bounds them: one input's events, at most one for each receipt.
type events struct {
	list []codec.Event
	next int
}

func (e *events) push(event codec.Event) { e.list = append(e.list, event) }

// answer pushes the answer to a receipt.
func (e *events) answer(r codec.Receipt, delivered bool) {
	kind := codec.Lost
	if delivered {
		kind = codec.Delivered
	}
	e.push(codec.Event{Kind: kind, Message: codec.Message{Receipt: r}})
}

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
