package simnet

import (
	"net/netip"
	"time"
)

// StreamNode is a Node that also uses streams, which it opens, writes and closes by the methods of its Net. Whoever
// dials one hears nothing of its success: what it writes meanwhile comes behind the dialing.
type StreamNode interface {
	Node
	// Accept reports whether the node wants the stream that somebody dials to one of its addresses.
	Accept(now time.Time, from, to netip.AddrPort) bool
	// Segment takes the next bytes of a stream, cut wherever the network likes. They are overwritten when it returns.
	Segment(now time.Time, from, to netip.AddrPort, segment []byte)
	// Ended tells that the peer has closed a stream, or refused it. All that it wrote before has come by then.
	Ended(now time.Time, from, to netip.AddrPort)
}

const (
	maxSegment = 1448                   // bytes that TCP puts into a packet of Ethernet
	resendTime = 200 * time.Millisecond // what TCP takes, at least, to send again what was lost
	maxResends = 4                      // which take 3 s; what those do not bring arrives all the same
	cutShare   = 0.25                   // of the pieces that go out before they are full
)

// lane is one direction of a stream.
type lane struct {
	path
	back    *lane     // the other direction
	latest  time.Time // when the last bytes under way arrive
	stalled time.Time // until when something lost is not sent again
	inbox   []byte    // bytes that arrive at one moment, which come as one segment
	reading bool      // they are about to
	deaf    bool      // its reader has closed the stream
}

// DialStream opens a stream between two addresses, which may have one at a time.
func (n *Net) DialStream(from, to netip.AddrPort) {
	there, back := &lane{path: path{from, to}}, &lane{path: path{to, from}}
	there.back, back.back = back, there
	if n.lanes[there.path] != nil || n.lanes[back.path] != nil {
		panic("simnet: " + from.String() + " has a stream to " + to.String())
	}
	n.lanes[there.path], n.lanes[back.path] = there, back
	n.push(there, nil, func() {
		if node := n.streamNode(to); node == nil || !node.Accept(n.now, from, to) {
			n.CloseStream(to, from)
		}
	})
}

// WriteStream writes bytes to a stream. Now and then they are cut; a piece that the weather loses comes late, as do
// those behind it, and those that come at one moment are joined. A stream that has ended takes nothing.
func (n *Net) WriteStream(from, to netip.AddrPort, b []byte) {
	l := n.lanes[path{from, to}]
	for l != nil && len(b) > 0 {
		size := min(len(b), maxSegment)
		if n.rng.Float64() < cutShare {
			size = 1 + n.rng.IntN(size)
		}
		n.push(l, b[:size], func() { n.read(l) })
		b = b[size:]
	}
}

// CloseStream closes a stream from one side: the other side gets what was written and hears of the end, and this side
// hears no more. A stream that has ended stays so.
func (n *Net) CloseStream(from, to netip.AddrPort) {
	l := n.lanes[path{from, to}]
	if l == nil {
		return
	}
	delete(n.lanes, l.path)
	l.back.deaf = true
	n.push(l, nil, func() {
		n.deliver(l)
		if l.deaf {
			return // both have closed it
		}
		delete(n.lanes, l.back.path)
		if node := n.streamNode(to); node != nil {
			node.Ended(n.now, from, to)
		}
	})
}

// push sends a piece of a lane on its way, and calls f when it and all before it have arrived.
func (n *Net) push(l *lane, b []byte, f func()) {
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

// streamDelay is how long a piece takes, with what is lost of it sent again, after twice as long each time. What waits
// for an earlier piece goes out together with it.
func (n *Net) streamDelay(l *lane, size int) (delay time.Duration) {
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
		delay += pause
		pause *= 2
		l.stalled = n.now.Add(delay)
	}
	return delay
}

// read has the reader of a lane take what has arrived, and what else does so at this moment.
func (n *Net) read(l *lane) {
	if !l.reading {
		l.reading = true
		n.queue.push(event{at: n.now, action: func() { n.deliver(l) }})
	}
}

// deliver gives a lane's reader what has arrived, if it is still there.
func (n *Net) deliver(l *lane) {
	l.reading = false
	segment := l.inbox
	l.inbox = nil
	if node := n.streamNode(l.to); node != nil && !l.deaf && len(segment) > 0 {
		node.Segment(n.now, l.from, l.to, segment)
	}
	n.queue.recycle(segment)
}

// streamNode is the node at an address, if it uses streams.
func (n *Net) streamNode(addr netip.AddrPort) StreamNode {
	h := n.byAddr[addr]
	if h == nil {
		return nil
	}
	node, _ := h.node.(StreamNode)
	return node
}
