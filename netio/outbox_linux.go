package netio

import (
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	outSlots  = 128 // datagrams queued before they are flushed
	sendBatch = 64  // datagrams one sendmmsg carries
)

// outbox queues outgoing datagrams, so that those of one socket go in one system call however they were mixed with those
// of others. Each socket's are a chain of slots.
type outbox struct {
	slots   [outSlots]outSlot
	used    int
	sockets []*epollSocket // that have a chain, in the order of their first datagram
	batch   [sendBatch]mmsghdr
}

// outSlot is one queued datagram.
type outSlot struct {
	bytes   [MaxDatagram]byte
	iovec   unix.Iovec
	name    sockaddr
	nameLen uint32 // 0 for a dialed socket
	next    int    // in the chain, if this is not its last
}

// chain is the queue of one socket: length slots from first to last.
type chain struct{ first, last, length int }

func newOutbox() *outbox {
	o := new(outbox)
	for i := range o.slots {
		o.slots[i].iovec.Base = &o.slots[i].bytes[0]
	}
	for i := range o.batch {
		o.batch[i].SetIovlen(1)
	}
	return o
}

// buffer lends the next slot's room. There is always one: push leaves it free.
func (o *outbox) buffer() []byte { return o.slots[o.used].bytes[:0] }

// full reports whether flush must come before the next push.
func (o *outbox) full() bool { return o.used == outSlots }

// push queues a datagram of at most MaxDatagram bytes. It reports false if the socket's family cannot reach to.
func (o *outbox) push(s *epollSocket, to netip.AddrPort, datagram []byte) bool {
	i := o.used
	slot := &o.slots[i]
	slot.nameLen = 0
	if !s.dialed() {
		if slot.nameLen = putSockaddr(&slot.name, to, s.family); slot.nameLen == 0 {
			return false
		}
	}
	if len(datagram) > 0 && &datagram[0] != &slot.bytes[0] {
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
}

// flushSocket sends a socket's chain, if it has one. Its slots stay in use until the next flush.
func (o *outbox) flushSocket(s *epollSocket) {
	i := s.queue.first
	for s.queue.length > 0 {
		n := min(s.queue.length, sendBatch)
		for j := range n {
			o.prepare(&o.batch[j], &o.slots[i])
			i = o.slots[i].next
		}
		s.queue.length -= n
		s.send(o.batch[:n])
	}
}

func (o *outbox) prepare(h *mmsghdr, slot *outSlot) {
	h.Iov = &slot.iovec
	h.Name = (*byte)(unsafe.Pointer(&slot.name))
	h.Namelen = slot.nameLen
}

// send sends a batch. What cannot be sent is dropped and counted: a datagram that met an error, and all the rest if the
// kernel's buffer is full.
func (s *epollSocket) send(batch []mmsghdr) {
	p := s.poller
	for len(batch) > 0 {
		n, errno := sendmmsg(s.fd, batch)
		if errno != 0 {
			f := classifyErrno(errno)
			if n = 1; f == wouldBlock {
				n = len(batch)
			}
			p.stats.countSend(f, n)
			p.failures.add(s, &s.endpoint, f)
		} else {
			p.stats.Out.add(n, sizes(batch[:n]))
		}
		batch = batch[n:]
	}
}

// sizes is the sum of the bytes sent of a batch.
func sizes(batch []mmsghdr) (sum int) {
	for i := range batch {
		sum += int(batch[i].n)
	}
	return sum
}
