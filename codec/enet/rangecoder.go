package enet

import (
	"math/bits"
	"sync/atomic"

	"tidegate/codec"
)

// Constants of the library's compression. docs/protocols/enet.md#compression
const (
	mostNodes    = 4096
	mostOrder    = 2 // bytes of a context
	rangeTop     = 1 << 24
	rangeBottom  = 1 << 16
	mostTotal    = rangeBottom - 0x100 // of a context, before its weights are halved
	rootStep     = 3                   // added to the weight of a byte that has come
	rootFloor    = 1                   // weight of a byte that has not come yet
	step         = 2                   // as rootStep, in a context of one or two bytes
	escapeStep   = 5
	mostWeight   = 0xff - 2*step
	rootWeight   = 0xff - 2*rootStep + rootFloor
	allBytes     = 256
	root         = 0 // the context without a byte
	noNode       = 0 // the root is no byte's node
	firstEscapes = 1 // of the root: the end of the datagram
)

// rangeCoder is the compression that the library has built in: a model of the last two bytes predicts the next one, and
// a range coder writes it. Each datagram begins with an empty model. The zero value is ready.
type rangeCoder struct {
	model
	low, span uint32
	code      uint32                       // the number in the range that unpack reads
	rest      []byte                       // that unpack has not read
	buffer    [codec.MaxDatagram + 32]byte // what pack has written
}

// coders lends a Protocol's range coder.
type coders struct{ spare atomic.Pointer[rangeCoder] }

// lend returns the spare coder, or a new one while that is lent.
func (c *coders) lend() *rangeCoder {
	if r := c.spare.Swap(nil); r != nil {
		return r
	}
	return new(rangeCoder)
}

// unpack appends the commands of a compressed datagram to its header.
func (c *coders) unpack(header, packed []byte, most int) ([]byte, bool) {
	r := c.lend()
	defer c.spare.Store(r)
	return r.unpack(header, packed, most)
}

// model counts which byte follows which. A node is a byte under a context, in a binary tree of its context's bytes. It
// is also the context of the bytes that follow.
type model struct {
	nodes [mostNodes]node
	next  int
	// longest is the context of the last bytes, order the number of them.
	longest uint16
	order   int
	link    *uint16 // where the node of the next byte in the next shorter context is written
}

type node struct {
	value, weight uint8
	under         uint16 // weight of this byte and of all on its left
	left, right   uint16 // smaller and greater bytes
	bytes         uint16 // of the context: the top of the tree of bytes
	escapes       uint16 // weight of all bytes that the context does not know
	total         uint16
	shorter       uint16 // the context without its first byte
}

// share is a byte's part of a context's total.
type share struct{ below, weight, total uint16 }

func (m *model) reset() {
	m.nodes[root] = node{escapes: firstEscapes, total: firstEscapes + allBytes*rootFloor}
	m.next, m.longest, m.order = 1, root, 0
	m.link = &m.longest
}

// learn counts a byte in a context. It returns the byte's share of the context before, with weight 0 for an unknown
// byte.
func (m *model) learn(at uint16, value byte) (s share) {
	context := &m.nodes[at]
	more, floor, most := uint16(step), uint16(0), uint16(mostWeight)
	if at == root {
		more, floor, most = rootStep, rootFloor, rootWeight
	}
	s = share{below: context.escapes + uint16(value)*floor, weight: floor, total: context.total}
	place := &context.bytes
	for {
		n := &m.nodes[*place]
		if *place == noNode || bits.Reverse8(value) > bits.Reverse8(n.value) {
			s.below += m.insert(place, value, more)
			break
		}
		if value > n.value {
			s.below += n.under
			place = &n.right
			continue
		}
		n.under += more
		if value == n.value {
			s.below += n.under - more - uint16(n.weight)
			s.weight += uint16(n.weight)
			n.weight += uint8(more)
			break
		}
		place = &n.left
	}
	*m.link = *place
	m.link = &m.nodes[*place].shorter
	if s.weight == 0 {
		context.escapes += escapeStep
		context.total += escapeStep
	}
	if context.total += more; s.weight > most || context.total > mostTotal {
		context.escapes -= context.escapes / 2
		context.total = m.halve(context.bytes) + context.escapes + allBytes*floor
	}
	return s
}

// insert makes a new byte the top of the tree at a place. It returns the weight of all smaller bytes there. Where bytes
// stand in a tree is no part of the format. So the byte that is greater with its bits reversed stands above: no order
// of bytes makes a tree deep, and a datagram slow.
func (m *model) insert(place *uint16, value byte, weight uint16) (below uint16) {
	top := *place
	for i := top; i != noNode; {
		n := &m.nodes[i]
		if i = n.left; n.value < value {
			below += n.under
			i = n.right
		}
	}
	fresh := &m.nodes[m.next]
	*fresh = node{value: value, weight: uint8(weight), under: below + weight}
	*place = uint16(m.next)
	m.next++
	smaller, greater, rest := &fresh.left, &fresh.right, below
	for i := top; i != noNode; {
		n := &m.nodes[i]
		if n.value < value {
			*smaller, smaller = i, &n.right
			rest -= n.under
			i = n.right
		} else {
			*greater, greater = i, &n.left
			n.under -= rest
			i = n.left
		}
	}
	*smaller, *greater = noNode, noNode
	return below
}

// halve halves the weights of a tree, and returns their sum.
func (m *model) halve(at uint16) (total uint16) {
	for ; at != noNode; at = m.nodes[at].right {
		n := &m.nodes[at]
		n.weight -= n.weight / 2
		n.under = uint16(n.weight) + m.halve(n.left)
		total += n.under
	}
	return total
}

// follow makes the last byte part of the context. A full model begins anew.
func (m *model) follow() {
	m.link = &m.longest
	if m.order < mostOrder {
		m.order++
	} else {
		m.longest = m.nodes[m.longest].shorter
	}
	if m.next >= mostNodes-mostOrder {
		m.reset()
	}
}

// escape returns the share of all bytes that a context of some bytes does not know. It reports false if no escape is
// written: the context knows no byte, or has come for the first time.
func (n *node) escape() (share, bool) {
	return share{weight: n.escapes, total: n.total}, n.escapes > 0 && n.escapes < n.total
}

// find returns the byte at a place of a context's total, and its share. It reports false if there is none.
func (m *model) find(at uint16, place uint32) (value byte, s share, ok bool) {
	context := &m.nodes[at]
	floor, lowest, below := uint32(0), uint32(0), uint32(context.escapes)
	if at == root {
		floor = rootFloor
	}
	for i := context.bytes; i != noNode; {
		n := &m.nodes[i]
		begin := below + uint32(n.under) - uint32(n.weight) + (uint32(n.value)-lowest)*floor
		end := begin + uint32(n.weight) + floor
		switch {
		case place < begin:
			i = n.left
		case place >= end:
			lowest, below, i = uint32(n.value)+1, end, n.right
		default:
			return n.value, share{uint16(begin), uint16(end - begin), context.total}, true
		}
	}
	lowest += place - below // each byte that has not come yet has the floor's weight
	return byte(lowest), share{uint16(place), rootFloor, context.total}, at == root && lowest < allBytes
}

// take narrows the range to a share of it.
func (r *rangeCoder) take(s share) {
	r.span /= uint32(s.total)
	r.low += uint32(s.below) * r.span
	r.span *= uint32(s.weight)
}

// shift returns the next byte that is certain: all numbers of the range begin with it.
func (r *rangeCoder) shift() (certain byte, ok bool) {
	if r.low^(r.low+r.span) >= rangeTop {
		if r.span >= rangeBottom {
			return 0, false
		}
		r.span = -r.low & (rangeBottom - 1)
	}
	certain = byte(r.low >> 24)
	r.low, r.span = r.low<<8, r.span<<8
	return certain, true
}

// begin begins a datagram.
func (r *rangeCoder) begin() {
	r.reset()
	r.low, r.span = 0, ^uint32(0)
}

// pack compresses bytes. It reports false if the result is not smaller. The result is valid until the next call.
func (r *rangeCoder) pack(plain []byte) (packed []byte, ok bool) {
	r.begin()
	packed = r.buffer[:0]
	for _, value := range plain {
		for at, isKnown := r.longest, false; !isKnown; {
			s, isWritten := r.nodes[at].escape()
			shorter := r.nodes[at].shorter
			if known := r.learn(at, value); known.weight > 0 {
				s, isKnown, isWritten = known, true, true
			}
			if at = shorter; !isWritten {
				continue
			}
			r.take(s)
			for b, ok := r.shift(); ok; b, ok = r.shift() {
				packed = append(packed, b)
			}
		}
		if len(packed) >= len(plain) {
			return nil, false
		}
		r.follow()
	}
	for ; r.low != 0; r.low <<= 8 { // a reader takes missing bytes for zeros
		packed = append(packed, byte(r.low>>24))
	}
	return packed, len(packed) < len(plain)
}

// unpack appends what pack has compressed to b. It reports false if packed is no such thing, or stands for more than
// most bytes.
func (r *rangeCoder) unpack(b, packed []byte, most int) ([]byte, bool) {
	r.begin()
	r.code, r.rest = 0, packed
	for range 4 {
		r.next()
	}
	most += len(b)
	for {
		at, value, got := r.read()
		switch {
		case got == nothing || got == aByte && len(b) == most:
			return b, false
		case got == theEnd:
			return b, true
		}
		for context, isLast := r.longest, false; !isLast; {
			shorter := r.nodes[context].shorter
			r.learn(context, value)
			context, isLast = shorter, context == at
		}
		r.follow()
		b = append(b, value)
	}
}

// What read has found.
const (
	nothing = iota
	aByte
	theEnd
)

// read reads a byte, and finds the context that knows it.
func (r *rangeCoder) read() (at uint16, value byte, got int) {
	for at = r.longest; ; at = r.nodes[at].shorter {
		s, isWritten := r.nodes[at].escape()
		if !isWritten {
			continue
		}
		place := (r.code - r.low) / (r.span / uint32(s.total))
		got = theEnd
		if place >= uint32(s.weight) {
			if value, s, isWritten = r.find(at, place); !isWritten {
				return at, 0, nothing
			}
			got = aByte
		}
		r.take(s)
		for _, ok := r.shift(); ok; _, ok = r.shift() {
			r.next()
		}
		if got == aByte || at == root {
			return at, value, got
		}
	}
}

// next makes the next byte part of the number that is looked for in the range. Missing bytes are zeros.
func (r *rangeCoder) next() {
	r.code <<= 8
	if len(r.rest) > 0 {
		r.code, r.rest = r.code|uint32(r.rest[0]), r.rest[1:]
	}
}
