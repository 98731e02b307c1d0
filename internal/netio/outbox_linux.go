package netio

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

const (
	outSlots  = 128 // datagrams queued before they are flushed
	sendBatch = 64  // messages one sendmmsg carries
)

// outbox queues outgoing datagrams, so that those of one socket go in one system call however they were mixed with those
// of others. Each socket's are a chain of slots.
type outbox struct {
	slots   [outSlots]outSlot
	used    int
	sockets []*epollSocket // that have a chain, in the order of their first datagram
	flight  flight
	in      *inbox // whose slots queued datagrams may lie in
}

// outSlot is one queued datagram.
type outSlot struct {
	bytes  [MaxDatagram]byte
	iovec  unix.Iovec // of bytes, or of a datagram that lies in the inbox
	to     sockaddr
	toLen  uint32 // 0 for a dialed socket
	source []byte // control message that says where it leaves from; nil: the kernel's choice
	next   int    // in the chain, if this is not its last
}

// chain is the queue of one socket: length slots from first to last.
type chain struct{ first, last, length int }

func newOutbox(in *inbox) *outbox {
	o := &outbox{in: in}
	o.flight.prepare()
	return o
}

// buffer lends the next slot's room. There is always one: push leaves it free.
func (o *outbox) buffer() []byte { return o.slots[o.used].bytes[:0] }

// full reports whether flush must come before the next push.
func (o *outbox) full() bool { return o.used == outSlots }

// push queues a datagram of at most MaxDatagram bytes, which is lent until the next flush or else copied. It reports false
// if the socket's family cannot reach to.
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

// flush sends all that is queued.
func (o *outbox) flush() {
	for _, s := range o.sockets {
		o.flushSocket(s)
	}
	clear(o.sockets)
	o.sockets = o.sockets[:0]
	o.used = 0
	o.in.free()
}

// flushSocket sends a socket's chain, if it has one. Its slots stay in use until the next flush.
func (o *outbox) flushSocket(s *epollSocket) {
	for s.queue.length > 0 {
		o.flight.load(o, &s.queue)
		o.flight.send(s)
	}
}
