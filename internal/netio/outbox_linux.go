package netio

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

const (
	outSlots  = 128 // datagrams in the queue
	sendBatch = 64  // messages in one sendmmsg
)

// outbox queues outgoing datagrams. The datagrams of one socket form a chain of slots. So they leave in one system
// call, even if they are mixed with others.
type outbox struct {
	slots   [outSlots]outSlot
	used    int
	sockets []*epollSocket // with a chain, in the order of their first datagrams
	flight  flight
	in      *inbox // whose slots may hold queued datagrams
}

// outSlot is one queued datagram.
type outSlot struct {
	bytes  [MaxDatagram]byte
	iovec  unix.Iovec // of bytes, or of a datagram in the inbox
	to     sockaddr
	toLen  uint32 // 0 for a dialed socket
	source []byte // control message with the source address; nil: the kernel's choice
	next   int    // next slot of the chain, if this is not the last one
}

// chain is the queue of one socket: length slots from first to last.
type chain struct{ first, last, length int }

func newOutbox(in *inbox) *outbox {
	o := &outbox{in: in}
	o.flight.prepare()
	return o
}

// buffer lends the room of the next slot. There is always one, because push leaves one free.
func (o *outbox) buffer() []byte { return o.slots[o.used].bytes[:0] }

// full reports whether flush is needed before the next push.
func (o *outbox) full() bool { return o.used == outSlots }

// push queues a datagram of at most MaxDatagram bytes. A lent one is used in place until the next flush; others are
// copied. It reports false if the socket's family cannot reach to.
func (o *outbox) push(s *epollSocket, to netip.AddrPort, source, datagram []byte, lent bool) bool {
	i := o.used
	slot := &o.slots[i]
	slot.toLen = 0
	if !s.dialed() {
		if slot.toLen = putSockaddr(&slot.to, to, s.family); slot.toLen == 0 {
			return false
		}
	}
	slot.source = source
	slot.iovec.Base = &slot.bytes[0]
	switch {
	case len(datagram) == 0 || &datagram[0] == &slot.bytes[0]:
	case lent:
		slot.iovec.Base = &datagram[0]
	default:
		copy(slot.bytes[:], datagram)
	}
	slot.iovec.SetLen(len(datagram))
	if s.queue.length == 0 {
		s.queue.first = i
		o.sockets = append(o.sockets, s)
	} else {
		o.slots[s.queue.last].next = i
	}
	s.queue.last = i
	s.queue.length++
	o.used++
	return true
}

// flush sends all queued datagrams.
func (o *outbox) flush() {
	for _, s := range o.sockets {
		o.flushSocket(s)
	}
	clear(o.sockets)
	o.sockets = o.sockets[:0]
	o.used = 0
	o.in.free()
}

// flushSocket sends a socket's chain, if there is one. Its slots stay in use until the next flush.
func (o *outbox) flushSocket(s *epollSocket) {
	for s.queue.length > 0 {
		o.flight.load(o, &s.queue)
		o.flight.send(s)
	}
}
