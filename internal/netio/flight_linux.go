package netio

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// flight is one batch on its way to the kernel. Consecutive datagrams to one peer that are of one size, the last may be
// shorter, go as a run: one message that the kernel, or the network card, cuts into datagrams again (UDP_SEGMENT). That
// costs the way through the kernel once.
type flight struct {
	batch   [sendBatch]mmsghdr
	iovecs  [outSlots]unix.Iovec
	control [sendBatch][]byte // of runs
	n       int               // messages in batch
	largest int               // bytes of the largest datagrams that can go in runs; 0: none can
	single  [1]mmsghdr
}

// Bounds of a run.
const (
	runLength = 64       // datagrams, the least that kernels allow
	runBytes  = 60 << 10 // less than an IP packet's 64 KiB with its headers
)

func (f *flight) prepare() {
	for i := range f.control {
		f.control[i] = make([]byte, 0, controlRoom)
	}
	if segments() {
		f.largest = MaxDatagram
	}
}

// segments reports whether the kernel knows UDP_SEGMENT.
func segments() bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	_, err = unix.GetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT)
	return err == nil
}

// load takes up to a batch of messages off the front of a chain.
func (f *flight) load(o *outbox, queue *chain) {
	f.n = 0
	for vectors := 0; f.n < sendBatch && queue.length > 0; f.n++ {
		run := f.board(o, queue, f.iovecs[vectors:])
		h := &f.batch[f.n]
		h.Iov = &f.iovecs[vectors]
		h.SetIovlen(run)
		vectors += run
	}
}

// board takes the run at the front of a chain, its bytes to iovecs and the rest to the next header, and returns its
// length.
func (f *flight) board(o *outbox, queue *chain, iovecs []unix.Iovec) (run int) {
	head := &o.slots[queue.first]
	size, bytes := int(head.iovec.Len), 0
	for slot := head; ; slot = &o.slots[queue.first] {
		iovecs[run] = slot.iovec
		run++
		bytes += int(slot.iovec.Len)
		queue.first = slot.next
		queue.length--
		// A shorter one ends its run.
		if queue.length == 0 || run == runLength || int(slot.iovec.Len) < size || size == 0 || size > f.largest {
			break
		}
		next := &o.slots[queue.first]
		n := int(next.iovec.Len)
		if n == 0 || n > size || bytes+n > runBytes || !head.sameWay(next) {
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

// sameWay reports whether two datagrams of one socket go from and to the same addresses.
func (s *outSlot) sameWay(o *outSlot) bool {
	return s.toLen == o.toLen && (s.toLen == 0 || s.to == o.to) && unsafe.SliceData(s.source) == unsafe.SliceData(o.source)
}

func setControl(h *mmsghdr, control []byte) {
	h.Control = unsafe.SliceData(control)
	h.SetControllen(len(control))
}

// send sends the batch. What cannot be sent is dropped and counted: a message that met an error, and all the rest if the
// kernel's buffer is full.
func (f *flight) send(s *epollSocket) {
	for batch := f.batch[:f.n]; len(batch) > 0; {
		n, errno := sendmmsg(s.fd, batch)
		switch {
		case errno == 0:
			s.poller.stats.Out.add(datagrams(batch[:n]), sizes(batch[:n]))
		case f.notOurs(s, errno):
			n = 0 // once more
		case batch[0].Iovlen > 1 && f.runsFail(errno, &batch[0]):
			n = 1
			f.sendApart(s, &batch[0])
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

// notOurs reports whether an error is that of an earlier datagram, which one of the lanes of a descriptor sent: it is told
// there.
func (f *flight) notOurs(s *epollSocket, errno syscall.Errno) bool {
	h, ok := s.split.(*hub)
	if !ok || classifyErrno(errno).err() == nil {
		return false
	}
	return h.tellErrors() > 0
}

// runsFail reports whether an error is about the run rather than its datagrams: the path's MTU is less than one of them,
// so that they go in fragments, or not in runs; or the device cannot make their checksums. It learns from it.
func (f *flight) runsFail(errno syscall.Errno, h *mmsghdr) bool {
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

// sendApart sends the datagrams of a run each by itself.
func (f *flight) sendApart(s *epollSocket, run *mmsghdr) {
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
	}
}

// datagrams is how many datagrams a batch has.
func datagrams(batch []mmsghdr) (n int) {
	for i := range batch {
		n += int(batch[i].Iovlen)
	}
	return n
}

// sizes is the sum of the bytes sent of a batch.
func sizes(batch []mmsghdr) (sum int) {
	for i := range batch {
		sum += int(batch[i].n)
	}
	return sum
}
