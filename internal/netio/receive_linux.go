package netio

import (
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// notifyEvery is the number of sockets that are read between two calls of AfterRead. A look at the clock takes a
// fiftieth of the time of a datagram.
const notifyEvery = 16

func (p *epollPoller) Receive(h Handler) {
	p.unread = len(p.ready) == readyBatch
	p.load, p.loadBefore = turnLoad{}, p.load
	p.readNotifier = readNotifierOf(h)
	p.foreseer, _ = h.(Foreseer)
	// The handler may close sockets and open others with the same descriptor, so ready holds sockets, not descriptors.
	for i, r := range p.ready {
		if i%notifyEvery == notifyEvery-1 {
			p.readNotifier.AfterRead()
		}
		if i%foresight == 0 && p.foreseer != nil {
			p.foreseeReady(p.ready[i:min(i+foresight, len(p.ready))])
		}
		r.handle(r.events, h)
	}
	clear(p.ready)
	p.ready = p.ready[:0]
	p.clock.fire()
	p.failures.deliver(h)
	p.updatePollMode(h)
	if e, ok := h.(DrainNotifier); ok && !p.unread {
		e.InputDrained()
	}
}

// foreseeReady announces the datagrams of dialed sockets.
func (p *epollPoller) foreseeReady(ready []readiness) {
	for _, r := range ready {
		if s, ok := r.watched.(*epollSocket); ok && !s.closed && s.dialed() && len(ready) > 1 && r.events&unix.EPOLLIN != 0 {
			p.foreseer.Foresee(s, s.peer)
		}
	}
}

// handle reads the socket's datagrams.
func (s *epollSocket) handle(events uint32, h Handler) {
	if s.closed {
		return
	}
	if shared, ok := s.demux.(*sharedSocket); ok && events&unix.EPOLLERR != 0 {
		shared.readErrorQueue()
	}
	p := s.poller
	switch {
	case s.dialed():
		p.receive(s, s.expectedMessages(), 1, h)
	case sharedOf(s) != nil:
		p.load.shared++
		p.pollMode.read(s, p.receive(s, listenBatch, p.loadBefore.share(), h))
	default:
		n := p.receive(s, listenBatch, turnDatagrams, h)
		p.load.listened += n
		p.pollMode.read(s, n)
	}
}

// turnLoad is the input of a turn.
type turnLoad struct {
	listened int // datagrams at listening sockets
	shared   int // shared sockets with input
}

// share returns the number of datagrams to read from a shared socket. The servers' answers to the clients of all
// listeners come there. If it were that of one listener, a busy loop would leave most answers unread, and read clients
// that repeat themselves for want of them.
func (l turnLoad) share() int { return max(turnDatagrams, l.listened/max(l.shared, 1)) }

// expectedMessages returns the number of messages to ask of a ready dialed socket. Usually one has come, and letting
// the kernel find no second one costs half a datagram. If the socket was ready in the previous turn too, it had more.
func (s *epollSocket) expectedMessages() int {
	p := s.poller
	again := s.readIn+1 == p.turn && !p.idle
	s.readIn = p.turn
	if again {
		return dialBatch
	}
	return 1
}

// receive reads from s and delivers the datagrams, until it has enough. It returns their number. A batch that is not
// full was the last one: another system call would cost more than a rare late datagram is worth.
func (p *epollPoller) receive(s *epollSocket, batch, enough int, h Handler) (received int) {
	for received < enough && !s.closed {
		if p.in.room(batch) < min(batch, dialBatch) {
			p.out.flush()
		}
		room := p.in.room(batch)
		n, errno := p.in.read(s.fd, room, !s.dialed())
		if errno != 0 {
			p.receiveFailed(s, errno)
			return received
		}
		received += p.count(n)
		s.queued = s.queued || n > 1
		if !s.dialed() || n > 1 {
			p.readNotifier.AfterRead()
		}
		p.deliver(s, n, h)
		if n < room {
			return received
		}
	}
	p.unread = p.unread || !s.dialed()
	return received
}

// count counts the n messages of the last read, and returns the number of their datagrams.
func (p *epollPoller) count(n int) (datagrams int) {
	bytes := 0
	for slot := p.in.first; slot < p.in.first+n; slot++ {
		length, size := int(p.in.batch[slot].n), p.in.size(slot)
		if p.in.tooLarge(slot) {
			p.stats.countReceive(tooLarge)
			continue
		}
		bytes += length
		datagrams++
		if length > size {
			datagrams += (length - 1) / size
		}
	}
	p.stats.In.add(datagrams, bytes)
	return datagrams
}

// deliver gives h the n messages of the last read.
func (p *epollPoller) deliver(s *epollSocket, n int, h Handler) {
	in := p.in
	for slot := in.first; slot < in.first+n && !s.closed; slot++ {
		if i := slot - in.first; i%foresight == 0 && n > 1 && !s.dialed() && p.foreseer != nil {
			for next := slot; next < min(slot+foresight, in.first+n); next++ {
				if to, from := p.routeOf(s, next); to != nil {
					p.foreseer.Foresee(to, from)
				}
			}
		}
		if in.tooLarge(slot) {
			continue
		}
		to, from := p.routeOf(s, slot)
		if to == nil {
			p.stats.Strangers++
			continue
		}
		in.current = slot
		p.deliverMessage(s, to, from, in.message(slot), in.size(slot), h)
	}
	in.current = -1
}

// routeOf returns the Socket of a message, nil for a stranger's, and its sender.
func (p *epollPoller) routeOf(s *epollSocket, slot int) (to Socket, from netip.AddrPort) {
	if s.dialed() {
		return s, s.peer
	}
	from = addrPort(&p.in.names[slot])
	if s.demux == nil {
		return s, from
	}
	return s.demux.socketOf(from, p.in.metadata[slot].at), from
}

// deliverMessage gives h the datagrams of a message to a Socket. All have the same size, except the last, which may
// be shorter.
func (p *epollPoller) deliverMessage(s *epollSocket, to Socket, from netip.AddrPort, message []byte, size int,
	h Handler) {
	for {
		end := min(size, len(message))
		p.delay.handled++
		h.Datagram(to, from, message[:end:end])
		message = message[end:]
		if l, ok := to.(*virtualSocket); len(message) == 0 || s.closed || ok && l.closed {
			return
		}
	}
}

func (p *epollPoller) receiveFailed(s *epollSocket, errno syscall.Errno) {
	f := classifyErrno(errno)
	if _, ok := s.demux.(*sharedSocket); ok && f.err() != nil {
		return // the error is also in the error queue, which the next turn reads
	}
	if f == wouldBlock { // not ready after all
		return
	}
	p.stats.countReceive(f)
	p.failures.add(s, &s.endpoint, f)
}

// Sizes of a read. A listening socket serves many clients, so it is read until the turn has enough datagrams. A
// dialed socket carries the answers of one upstream to one client.
const (
	listenBatch   = 64
	dialBatch     = 8
	turnDatagrams = 256
)

// Sizes of an inbox.
const (
	inSlots  = 128
	slotSize = 64 << 10 // bytes: the kernel may join datagrams of one peer
	// slotStride keeps the starts of slots on separate cache lines. Most datagrams use only the start.
	slotStride = slotSize + 256
)

// inbox holds slots for recvmmsg, prepared once. A slot with bytes that wait to be forwarded is not reused before
// they are sent.
type inbox struct {
	slab     []byte
	batch    [inSlots]mmsghdr
	iovecs   [inSlots]unix.Iovec
	names    [inSlots]sockaddr // of the senders
	control  []byte
	metadata [inSlots]metadata
	next     int // first free slot
	first    int // slot of the first message of the last read
	current  int // slot that is being delivered; -1 for none
}

func newInbox() *inbox {
	in := &inbox{
		slab:    make([]byte, inSlots*slotStride),
		control: make([]byte, inSlots*controlRoom),
		current: -1,
	}
	for i := range in.batch {
		h := &in.batch[i]
		in.iovecs[i].Base = &in.slab[i*slotStride]
		in.iovecs[i].SetLen(slotSize)
		h.Iov = &in.iovecs[i]
		h.SetIovlen(1)
		h.Control = &in.control[i*controlRoom]
	}
	return in
}

// room returns the number of messages that the next read can take of a batch.
func (in *inbox) room(batch int) int { return min(batch, inSlots-in.next) }

// read receives up to room messages. With named, it also receives the senders' addresses. There must be room for all.
func (in *inbox) read(fd, room int, named bool) (n int, errno syscall.Errno) {
	in.first = in.next
	batch := in.batch[in.first : in.first+room]
	for i := range batch { // input: room; output: length
		batch[i].SetControllen(controlRoom)
		batch[i].Name, batch[i].Namelen = nil, 0
		if named {
			batch[i].Name, batch[i].Namelen = (*byte)(unsafe.Pointer(&in.names[in.first+i])), unix.SizeofSockaddrInet6
		}
	}
	if n, errno = mmsg(unix.SYS_RECVMMSG, fd, batch); errno != 0 {
		return 0, errno
	}
	for i := range batch[:n] {
		in.metadata[in.first+i] = metadata{}
		if batch[i].Controllen > 0 {
			in.metadata[in.first+i].read(in.control[(in.first+i)*controlRoom:][:batch[i].Controllen])
		}
	}
	return n, 0
}

// message returns the bytes of a slot.
func (in *inbox) message(slot int) []byte {
	return unsafe.Slice(in.iovecs[slot].Base, in.batch[slot].n)
}

// size returns the size of the datagrams in a slot. The last one may be shorter.
func (in *inbox) size(slot int) int {
	if size := in.metadata[slot].size; size > 0 {
		return size
	}
	return int(in.batch[slot].n)
}

// tooLarge reports whether the datagrams of a slot exceed the limit.
func (in *inbox) tooLarge(slot int) bool {
	return in.batch[slot].Flags&unix.MSG_TRUNC != 0 || in.size(slot) > MaxDatagram
}

// lend protects the current slot until free, if it contains the datagram. It reports whether it does.
func (in *inbox) lend(datagram []byte) bool {
	if in.current < 0 || len(datagram) == 0 {
		return false
	}
	begin := uintptr(unsafe.Pointer(in.iovecs[in.current].Base))
	if p := uintptr(unsafe.Pointer(&datagram[0])); p < begin || p >= begin+slotSize {
		return false
	}
	in.next = max(in.next, in.current+1)
	return true
}

// free marks all slots as reusable, because nothing waits to be forwarded any more.
func (in *inbox) free() { in.next = 0 }

// Indices into the answer of SO_MEMINFO (SK_MEMINFO_* in linux/sock_diag.h).
const (
	memoryDrops  = 8
	memoryFields = 9
)

// KernelDrops implements KernelDropCounter. Asking on demand costs less than a control message with each datagram
// (SO_RXQ_OVFL). Kernels before 4.12 do not answer.
func (s *epollSocket) KernelDrops() uint32 {
	var fields [memoryFields]uint32
	size := uint32(unsafe.Sizeof(fields))
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(s.fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&fields)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return s.drops
	}
	return fields[memoryDrops]
}

// countDrops adds the kernel's drops since the last call.
func (s *epollSocket) countDrops() {
	drops := s.KernelDrops()
	*s.dropsOf(&s.poller.stats) += uint64(drops - s.drops)
	s.drops = drops
}

// dropsOf returns the total that the socket's drops belong to.
func (s *epollSocket) dropsOf(all *Stats) *uint64 {
	_, shared := s.demux.(*sharedSocket)
	switch {
	case s.dialed() || shared:
		return &all.DialedDrops
	case s.filtered:
		return &all.FilterDrops
	}
	return &all.KernelDrops
}

// SetFiltered implements KernelDropCounter.
func (s *epollSocket) SetFiltered(on bool) {
	if on != s.filtered {
		s.countDrops()
		s.filtered = on
	}
}

// dialedLooks bounds the number of one-session sockets that one Stats asks, because there may be thousands.
const dialedLooks = 128

// Stats asks all listening and shared sockets for their drops. It asks a socket of one session only if datagrams have
// piled up there. Close asks such a socket too.
func (p *epollPoller) Stats() Stats {
	looks := 0
	for _, w := range p.sockets {
		s, ok := w.(*epollSocket)
		switch {
		case !ok:
		case !s.dialed():
			s.countDrops()
		case s.queued && looks < dialedLooks:
			looks++
			s.countDrops()
			s.queued = false
		}
	}
	return p.stats
}
