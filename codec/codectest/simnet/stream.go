package simnet

import (
	"net/netip"
	"time"
)

// StreamNode is a Node that also uses streams. It opens, writes and closes them by its Net's methods. A node that dials
// is not told of success; its writes follow the dialing.
type StreamNode interface {
	Node
	// Accept reports whether the node accepts a stream dialed to one of its addresses.
	Accept(now time.Time, from, to netip.AddrPort) bool
	// Segment takes the next bytes of a stream, cut anywhere. They are overwritten when it returns.
	Segment(now time.Time, from, to netip.AddrPort, segment []byte)
	// Ended reports that the peer has closed a stream or refused it. Everything written before has arrived by then.
	Ended(now time.Time, from, to netip.AddrPort)
}

const (
	maxSegment = 1448                   // bytes of TCP payload in an Ethernet packet
	resendTime = 200 * time.Millisecond // TCP's least time before it resends
	maxResends = 4                      // together 3 s; after them the bytes arrive anyway
	cutShare   = 0.25                   // share of the pieces that are sent before they are full
)

// half is one direction of a stream.
type half struct {
	path
	back    *half     // the other direction
	latest  time.Time // when the last bytes under way arrive
	stalled time.Time // until when a lost piece waits to be resent
	inbox   []byte    // bytes that arrive at one moment, delivered as one segment
	reading bool      // a delivery is queued
	closed  bool      // the reader has closed the stream
}

// DialStream opens a stream between two addresses, which may have one at a time.
func (n *Net) DialStream(from, to netip.AddrPort) {
	there, back := &half{path: path{from, to}}, &half{path: path{to, from}}
	there.back, back.back = back, there
	if n.streams[there.path] != nil || n.streams[back.path] != nil {
		panic("simnet: " + from.String() + " has a stream to " + to.String())
	}
	n.streams[there.path], n.streams[back.path] = there, back
	n.push(there, nil, func() {
		if node := n.streamNode(to); node == nil || !node.Accept(n.now, from, to) {
			n.CloseStream(to, from)
		}
	})
}

// WriteStream writes bytes to a stream. The network cuts them at random. A lost piece arrives late, as do the pieces
// behind it. Pieces that arrive at one moment are joined. An ended stream ignores the bytes.
func (n *Net) WriteStream(from, to netip.AddrPort, b []byte) {
	l := n.streams[path{from, to}]
	for l != nil && len(b) > 0 {
		size := min(len(b), maxSegment)
		if n.rng.Float64() < cutShare {
			size = 1 + n.rng.IntN(size)
		}
		n.push(l, b[:size], func() { n.read(l) })
		b = b[size:]
	}
}

// CloseStream closes a stream from one side. The other side gets everything written and then Ended; this side gets
// nothing more. Closing an ended stream has no effect.
func (n *Net) CloseStream(from, to netip.AddrPort) {
	l := n.streams[path{from, to}]
	if l == nil {
		return
	}
	delete(n.streams, l.path)
	l.back.closed = true
	n.push(l, nil, func() {
		n.deliver(l)
		if l.closed {
			return // both sides have closed it
		}
		delete(n.streams, l.back.path)
		if node := n.streamNode(to); node != nil {
			node.Ended(n.now, from, to)
		}
	})
}

// push sends a piece of a stream, and calls f when it and everything before it have arrived.
func (n *Net) push(l *half, b []byte, f func()) {
	if at := n.now.Add(n.streamDelay(l, len(b))); at.After(l.latest) {
		l.latest = at
	}
	at := l.latest
	n.trace.add(n.Elapsed(), l.from, l.to, b, fate{kind: streamed, delay: at.Sub(n.now)})
	piece := n.queue.copyOf(b)
	n.queue.push(event{at: at, action: func() {
		l.inbox = append(l.inbox, piece...)
		n.queue.recycle(piece)
		f()
	}})
}

// streamDelay is the time that a piece takes, with resends after doubling pauses. Pieces that wait for an earlier one
// leave together with it.
func (n *Net) streamDelay(l *half, size int) (delay time.Duration) {
	if n.now.Before(l.stalled) {
		return 0
	}
	weather, state := n.weatherOf(l.path)
	fitting := *weather
	fitting.MTU = 0
	pause := resendTime
	for range maxResends {
		f := fitting.fateOf(n.rng, state, n.now, size)
		if f.kind == arrives {
			return delay + f.delay
		}
		state.note(n.now, f)
		delay += pause
		pause *= 2
		l.stalled = n.now.Add(delay)
	}
	return delay
}

// read queues a delivery of everything that arrives at this moment.
func (n *Net) read(l *half) {
	if !l.reading {
		l.reading = true
		n.queue.push(event{at: n.now, action: func() { n.deliver(l) }})
	}
}

// deliver gives the reader the bytes that have arrived, if it still reads.
func (n *Net) deliver(l *half) {
	l.reading = false
	segment := l.inbox
	l.inbox = nil
	if node := n.streamNode(l.to); node != nil && !l.closed && len(segment) > 0 {
		node.Segment(n.now, l.from, l.to, segment)
	}
	n.queue.recycle(segment)
}

// streamNode returns the node at an address if it uses streams, or nil.
func (n *Net) streamNode(addr netip.AddrPort) StreamNode {
	h := n.byAddr[addr]
	if h == nil {
		return nil
	}
	node, _ := h.node.(StreamNode)
	return node
}
