package netio

import (
	"syscall"
)

func (p *epollPoller) Receive(h Handler) {
	// The handler may close sockets, and open others of the same descriptor: ready holds sockets, not descriptors.
	for _, r := range p.ready {
		r.handle(r.events, h)
	}
	clear(p.ready)
	p.ready = p.ready[:0]
	p.clock.ring()
	p.failures.tell(h)
}

// handle reads the socket's datagrams.
func (s *epollSocket) handle(_ uint32, h Handler) {
	if s.dialed() {
		s.poller.receive(s, s.poller.dialIn, dialRounds, h)
	} else {
		s.poller.receive(s, s.poller.listenIn, listenRounds, h)
	}
}

// receive reads up to so many rounds from s and gives h what came. A batch that is not full was the last of it: asking
// the kernel again would cost more than the rare datagram that has come meanwhile is worth.
func (p *epollPoller) receive(s *epollSocket, in *inbox, rounds int, h Handler) {
	for range rounds {
		if s.closed {
			return
		}
		n, errno := in.read(s.fd)
		if errno != 0 {
			p.receiveFailed(s, errno)
			return
		}
		p.count(s, in, n)
		for i := 0; i < n && !s.closed; i++ {
			p.deliver(s, in, i, h)
		}
		if n < len(in.batch) {
			return
		}
	}
}

// count counts the n datagrams that in has of s.
func (p *epollPoller) count(s *epollSocket, in *inbox, n int) {
	datagrams, bytes := 0, 0
	for i := range n {
		if in.truncated(i) {
			p.stats.countReceive(tooLarge)
			continue
		}
		datagrams++
		bytes += len(in.datagram(i))
	}
	p.stats.In.add(datagrams, bytes)
	if drops, told := in.drops(n - 1); told {
		p.stats.KernelDrops += uint64(drops - s.drops)
		s.drops = drops
	}
}

// deliver gives h the i-th datagram of in.
func (p *epollPoller) deliver(s *epollSocket, in *inbox, i int, h Handler) {
	if in.truncated(i) {
		return
	}
	from := s.peer
	if in.names != nil {
		from = addrPort(&in.names[i])
	}
	p.delay.handled++
	h.Datagram(s, from, in.datagram(i))
}

func (p *epollPoller) receiveFailed(s *epollSocket, errno syscall.Errno) {
	f := classifyErrno(errno)
	if f == wouldBlock { // not ready after all
		return
	}
	p.stats.countReceive(f)
	p.failures.add(s, &s.endpoint, f)
}
