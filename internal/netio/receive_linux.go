package netio

import (
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// notifyEvery is the number of sockets that are read between two calls of AfterRead. A look at the clock takes a
// fiftieth of the time of a datagram.
const notifyEvery = 16

func (p *epollPoller) Receive(h Handler) {
	p.unread = len(p.ready) == readyBatch
	p.load, p.loadBefore = turnLoad{}, p.load
	p.readNotifier = readNotifierOf(h)
	// The handler may close sockets and open others with the same descriptor, so ready holds sockets, not descriptors.
	for i, r := range p.ready {
		if i%notifyEvery == notifyEvery-1 {
			p.readNotifier.AfterRead()
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
		if in.tooLarge(slot) {
			continue
		}
		from := s.peer
		if !s.dialed() {
			from = addrPort(&in.names[slot])
		}
		to := Socket(s)
		if s.demux != nil {
			if to = s.demux.socketOf(from, in.metadata[slot].at); to == nil {
				continue
			}
		}
		in.current = slot
		p.deliverMessage(s, to, from, in.message(slot), in.size(slot), h)
	}
	in.current = -1
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
