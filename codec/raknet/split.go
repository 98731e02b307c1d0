package raknet

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"tidegate/codec"
)

// maxSplits is the number of split messages that may be incomplete at once. A stock peer has at most 512 parts in
// flight, so it has at most half as many messages.
const maxSplits = 256

// Errors of parts.
var (
	errSplitUnreliable = fmt.Errorf("raknet: part of an unreliable message: %w", codec.ErrMalformed)
	errSplitCount      = fmt.Errorf("raknet: split message with fewer than two parts: %w", codec.ErrMalformed)
	errSplitSize       = fmt.Errorf("raknet: part larger than the MTU allows: %w", codec.ErrMalformed)
)

// reassembly joins split messages (docs/protocols/raknet.md#splitting). The first part to arrive fixes the number of
// parts, and reserves room for all of them. So a started message can always be finished. A message beyond the budget
// is refused until there is room. A part that contradicts the others under its ID is forged, or they are, and nothing
// tells which. If its header differs, it begins a message of its own. If only its content differs, the message has two
// versions: one with the parts that came first, and one with the latest parts. Both are delivered.
type reassembly struct {
	open     []*assembly `cbor:"12,keyasint,omitempty"`
	held     int         // bytes of memory
	reserved int         // bytes
	budget   int
	partRoom int `cbor:"40,keyasint,omitempty"` // bytes reserved for one part
	memory   *buffers
}

// assembly is one incomplete message.
type assembly struct {
	// first is the first part to arrive, without its payload and its pad; all others match it.
	first capsule  `record:"inline"`
	parts [][]byte `cbor:"6,keyasint"` // by index; empty if missing
	// newer has by index, if one has come, the latest part with another content than that in parts.
	newer   [][]byte `cbor:"9,keyasint,omitempty"`
	missing int
	pad     uint8         `cbor:"7,keyasint,omitempty"`
	fedAt   time.Duration `cbor:"8,keyasint,omitempty"` // when the latest part arrived
}

// Memory in bytes of an assembly without its parts, and of the place of one part.
const (
	assemblyCost  = 128
	partPlaceCost = 24
)

// judge says whether a part is fresh, stale, or refused for lack of room.
func (r *reassembly) judge(c *capsule) (verdict, error) {
	switch {
	case !c.mode.IsReliable():
		return stale, errSplitUnreliable
	case c.splitCount < 2:
		return stale, errSplitCount
	case len(c.payload) > r.partRoom:
		return stale, errSplitSize
	}
	if a := r.find(c); a != nil {
		return r.judgePart(a, c), nil
	}
	if len(r.open) == maxSplits || r.neverFits(c) || r.reserved+int(c.splitCount)*r.partRoom > r.budget {
		return refused, nil
	}
	return fresh, nil
}

// judgePart says whether a part is fresh in a message that is open.
func (r *reassembly) judgePart(a *assembly, c *capsule) verdict {
	part, newer := a.parts[c.splitIndex], a.newerPart(c.splitIndex)
	switch {
	case part == nil:
		return fresh
	case bytes.Equal(part, c.payload), newer != nil && bytes.Equal(newer, c.payload):
		return stale
	case newer == nil && r.reserved+r.partRoom > r.budget:
		return refused
	}
	return fresh
}

// add stores a fresh part. It returns the message if it is complete now. The caller joins and forgets it.
func (r *reassembly) add(now time.Duration, c *capsule) *assembly {
	a := r.find(c)
	if a == nil {
		a = &assembly{first: *c, parts: make([][]byte, c.splitCount), missing: int(c.splitCount)}
		a.first.payload = nil
		r.open = append(r.open, a)
		r.reserved += len(a.parts) * r.partRoom
		r.held += assemblyCost + len(a.parts)*partPlaceCost
	}
	part := r.memory.copy(c.payload)
	r.held += cap(part)
	a.fedAt = now
	if c.splitIndex == c.splitCount-1 {
		a.pad = c.pad
	}
	if a.parts[c.splitIndex] != nil {
		r.renew(a, c.splitIndex, part)
		return nil
	}
	a.parts[c.splitIndex] = part
	if a.missing--; a.missing > 0 {
		return nil
	}
	return a
}

// renew puts a part into the newer version of a message.
func (r *reassembly) renew(a *assembly, index uint32, part []byte) {
	if a.newer == nil {
		a.newer = make([][]byte, len(a.parts))
		r.held += len(a.parts) * partPlaceCost
	}
	if old := a.newer[index]; old != nil {
		r.held -= cap(old)
		r.memory.put(old)
	} else {
		r.reserved += r.partRoom
	}
	a.newer[index] = part
}

func (a *assembly) newerPart(index uint32) []byte {
	if a.newer == nil {
		return nil
	}
	return a.newer[index]
}

// neverFits reports whether a message has more parts than the whole budget allows.
func (r *reassembly) neverFits(c *capsule) bool {
	return int64(c.splitCount) > int64(r.budget/r.partRoom)
}

// join returns the older or the newer version of a complete message, in recycled memory.
func (r *reassembly) join(a *assembly, isNewer bool) []byte {
	size := 0
	for i := range a.parts {
		size += len(a.part(i, isNewer))
	}
	joined := r.memory.get(size)
	for i := range a.parts {
		joined = append(joined, a.part(i, isNewer)...)
	}
	return joined
}

func (a *assembly) part(i int, isNewer bool) []byte {
	if part := a.newerPart(uint32(i)); isNewer && part != nil {
		return part
	}
	return a.parts[i]
}

// forget frees the memory of an assembly.
func (r *reassembly) forget(a *assembly) {
	for _, part := range a.parts {
		r.held -= cap(part)
		r.memory.put(part)
	}
	for _, part := range a.newer {
		if part != nil {
			r.held -= cap(part)
			r.reserved -= r.partRoom
			r.memory.put(part)
		}
	}
	r.held -= assemblyCost + (len(a.parts)+len(a.newer))*partPlaceCost
	r.reserved -= len(a.parts) * r.partRoom
	r.open = slices.DeleteFunc(r.open, func(open *assembly) bool { return open == a })
}

// expire gives up the messages that have got no part since the given time. It returns their number.
func (r *reassembly) expire(since time.Duration) (given int) {
	for i := len(r.open) - 1; i >= 0; i-- {
		if r.open[i].fedAt < since {
			r.forget(r.open[i])
			given++
		}
	}
	return given
}

// clear gives up all messages.
func (r *reassembly) clear() { r.open, r.held, r.reserved = nil, 0, 0 }

// find returns the message of a part, or nil if it is the first one.
func (r *reassembly) find(c *capsule) *assembly {
	for i := len(r.open) - 1; i >= 0; i-- {
		if a := r.open[i]; a.first.splitID == c.splitID && a.matches(c) {
			return a
		}
	}
	return nil
}

func (a *assembly) matches(c *capsule) bool {
	f := &a.first
	return c.splitCount == f.splitCount && c.mode == f.mode && c.channel == f.channel && c.order == f.order &&
		c.sequence == f.sequence
}
