package netio

import (
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// flight is one batch on its way to the kernel. Consecutive datagrams of one size to one peer go as a run; the last
// may be shorter. A run is one message that the kernel or the network card cuts into datagrams again (UDP_SEGMENT).
// So a run passes through the kernel only once.
type flight struct {
	batch   [sendBatch]mmsghdr
	iovecs  [outSlots]unix.Iovec
	control [sendBatch][]byte // of runs
	n       int               // messages in batch
	largest int               // bytes of the largest datagram that may be in a run; 0: no runs
	single  [1]mmsghdr
}

// Bounds of a run.
const (
	runLength = 64       // datagrams, the smallest limit of any kernel
	runBytes  = 60 << 10 // below the 64 KiB of an IP packet, with its headers
)

func (f *flight) prepare() {
	for i := range f.control {
		f.control[i] = make([]byte, 0, controlRoom)
	}
	if segments() {
		f.largest = MaxDatagram
	}
}

// segments reports whether the kernel supports UDP_SEGMENT.
func segments() bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	_, err = unix.GetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT)
	return err == nil
}

// load moves up to a batch of messages from the front of a chain.
func (f *flight) load(o *outbox, queue *chain) {
	f.n = 0
	for vectors := 0; f.n < sendBatch && queue.length > 0; f.n++ {
		run := f.takeRun(o, queue, f.iovecs[vectors:])
		h := &f.batch[f.n]
		h.Iov = &f.iovecs[vectors]
		h.SetIovlen(run)
		vectors += run
	}
}

// takeRun moves the run at the front of a chain into iovecs and the next message header. It returns its length.
func (f *flight) takeRun(o *outbox, queue *chain, iovecs []unix.Iovec) (run int) {
	head := &o.slots[queue.first]
	size, bytes := int(head.iovec.Len), 0
	for slot := head; ; slot = &o.slots[queue.first] {
		iovecs[run] = slot.iovec
		run++
		bytes += int(slot.iovec.Len)
		queue.first = slot.next
		queue.length--
		// A shorter datagram ends its run.
		if queue.length == 0 || run == runLength || int(slot.iovec.Len) < size || size == 0 || size > f.largest {
			break
		}
		next := &o.slots[queue.first]
		n := int(next.iovec.Len)
		if n == 0 || n > size || bytes+n > runBytes || !head.sameRoute(next) {
			break
		}
	}
	h := &f.batch[f.n]
	h.Name = (*byte)(unsafe.Pointer(&head.to))
	h.Namelen = head.toLen
	control := head.source
	if run > 1 {
		control = appendSegment(append(f.control[f.n][:0], control...), size)
	}
	setControl(h, control)
	return run
}

// sameRoute reports whether two datagrams of one socket have the same source and destination.
func (s *outSlot) sameRoute(o *outSlot) bool {
	return s.toLen == o.toLen && (s.toLen == 0 || s.to == o.to) && unsafe.SliceData(s.source) == unsafe.SliceData(o.source)
}

func setControl(h *mmsghdr, control []byte) {
	h.Control = unsafe.SliceData(control)
	h.SetControllen(len(control))
}

// send sends the batch. Unsent messages are dropped and counted: a message with an error, and all the rest if the
// kernel's buffer is full.
func (f *flight) send(s *epollSocket) {
	for batch := f.batch[:f.n]; len(batch) > 0; {
		n, errno := sendmmsg(s.fd, batch)
		largest := f.largest
		switch {
		case errno == 0:
			s.poller.stats.Out.add(datagrams(batch[:n]), sizes(batch[:n]))
		case f.isQueuedError(s, errno):
			n = 0 // try again
		case batch[0].Iovlen > 1 && f.runRefused(errno, &batch[0]):
			if n = 1; !f.sendSingly(s, &batch[0]) {
				f.largest = largest // an address is the cause, and not the run
			}
		default:
			fault := classifyErrno(errno)
			if n = 1; fault == wouldBlock {
				n = len(batch)
			}
			s.poller.stats.countSend(fault, datagrams(batch[:n]))
			s.poller.failures.add(s, &s.endpoint, fault)
		}
		batch = batch[n:]
	}
}

// isQueuedError reports whether an error belongs to an earlier datagram of some virtual socket. It then reports the
// error there.
func (f *flight) isQueuedError(s *epollSocket, errno syscall.Errno) bool {
	h, ok := s.demux.(*sharedSocket)
	if !ok || classifyErrno(errno).err() == nil {
		return false
	}
	return h.readErrorQueue() > 0
}

// runRefused reports whether an error is caused by the run, not by its datagrams. Either the path's MTU is smaller
// than a datagram, so fragments are needed, or the device cannot compute their checksums. The flight remembers the
// limit.
func (f *flight) runRefused(errno syscall.Errno, h *mmsghdr) bool {
	switch errno {
	case unix.EINVAL, unix.EMSGSIZE:
		f.largest = min(f.largest, int(h.Iov.Len)-1)
	case unix.EIO, unix.EOPNOTSUPP:
		f.largest = 0
	default:
		return false
	}
	return true
}

// sendSingly sends the datagrams of a run one by one. It reports whether the kernel has taken one of them.
func (f *flight) sendSingly(s *epollSocket, run *mmsghdr) (sent bool) {
	one := &f.single[0]
	one.Msghdr = run.Msghdr
	one.SetIovlen(1)
	source := unsafe.Slice(run.Control, run.Controllen)[:int(run.Controllen)-unix.CmsgSpace(2)]
	setControl(one, source)
	iovecs := unsafe.Slice(run.Iov, run.Iovlen)
	for i := range iovecs {
		one.Iov = &iovecs[i]
		if _, errno := sendmmsg(s.fd, f.single[:]); errno != 0 {
			fault := classifyErrno(errno)
			s.poller.stats.countSend(fault, 1)
			s.poller.failures.add(s, &s.endpoint, fault)
			continue
		}
		s.poller.stats.Out.add(1, int(one.n))
		sent = true
	}
	return sent
}

// datagrams returns the number of datagrams in a batch.
func datagrams(batch []mmsghdr) (n int) {
	for i := range batch {
		n += int(batch[i].Iovlen)
	}
	return n
}

// sizes returns the number of bytes sent in a batch.
func sizes(batch []mmsghdr) (sum int) {
	for i := range batch {
		sum += int(batch[i].n)
	}
	return sum
}

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
