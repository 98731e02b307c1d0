package netio

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// readyBatch is the number of ready sockets that one Wait takes. The kernel rotates the others, so each gets its
// turn.
const readyBatch = 256

// epollPoller is the Poller over epoll, recvmmsg and sendmmsg.
type epollPoller struct {
	waiter       *waiter
	deadline     *deadlineTimer
	steady       steadiness
	look         func(fd uintptr) bool // p.poll as a function value, made once
	events       [readyBatch]unix.EpollEvent
	sockets      []watched // by descriptor
	ready        []readiness
	idleSockets  []*epollSocket // closed ones that the next Dial can reuse
	shared       sharedSockets
	in           *inbox
	out          *outbox
	room         []byte // that streams are read into
	frames       frameBuffer
	clock        timers
	lingers      *timerQueue // of closed streams
	pollMode     pollMode
	delay        moderation
	failures     failures
	readNotifier ReadNotifier // of this Receive
	load         turnLoad     // of this Receive
	loadBefore   turnLoad     // of the one before
	unread       bool         // this Receive may have left input of a listener
	turn         uint32       // number of Waits
	parked       uint32       // the turn that parked last
	idle         bool         // the last Wait found nothing at first
	sawAll       bool         // the last poll saw all ready sockets
	stats        Stats
	imported     imported // from another process
	giving       giving   // to another process
	guest        bool     // the other process may still go on with the imported sockets
	bound        int      // for new descriptors
	closed       bool
}

// watched is the owner of a descriptor in the epoll set.
type watched interface {
	// handle reacts to the events of the descriptor.
	handle(events uint32, h Handler)
	// shut closes the descriptor at once, also with data still queued.
	shut()
}

// readiness is a descriptor with its events, for Receive.
type readiness struct {
	watched
	events uint32
}

// native is the backend that newNative opens.
const native = Epoll

// newNative opens the best backend of the platform.
func newNative(o Options) (Poller, error) {
	w, err := newWaiter()
	if err != nil {
		return nil, err
	}
	in := newInbox()
	p := &epollPoller{
		waiter: w,
		ready:  make([]readiness, 0, readyBatch),
		in:     in,
		out:    newOutbox(in),
		room:   make([]byte, streamRead),
		delay:  moderation{max: o.MaxBatchDelay},
		steady: steadiness{off: runtime.GOMAXPROCS(0) == 1},
		bound:  descriptorBound(),
	}
	p.lingers = p.clock.add(lingerTime)
	p.look = func(uintptr) bool { return p.poll() }
	if err := p.watchDeadline(); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return p, nil
}

func (p *epollPoller) Listen(addr netip.AddrPort, o SocketOptions) (Socket, error) {
	s, err := p.open(addr, o.withListenDefaults(), bind)
	if err == nil {
		err = s.answerFromUsedAddress()
	}
	if err != nil {
		return nil, notListening(addr, err)
	}
	return s, nil
}

func (p *epollPoller) Dial(to netip.AddrPort, o SocketOptions) (Socket, error) {
	s, err := p.dial(to, o.withDialDefaults())
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", to, err)
	}
	return s, nil
}

func (p *epollPoller) dial(to netip.AddrPort, o SocketOptions) (Socket, error) {
	switch {
	case p.closed:
		return nil, ErrClosed
	case o.Sources.IsValid():
		return p.dialFromPrefix(to, o)
	case o.Shared:
		return p.dialShared(to, o)
	}
	open := p.dialConnected
	if o.TransparentSource.IsValid() {
		open = p.dialTransparent
	}
	s, err := open(to, o)
	if err != nil {
		return nil, err
	}
	s.peer = unmap(to)
	return s, nil
}

// open makes a socket, gives it an address by attach, and watches it.
func (p *epollPoller) open(addr netip.AddrPort, o SocketOptions,
	attach func(fd, family int, addr netip.AddrPort) error) (*epollSocket, error) {
	if p.closed {
		return nil, ErrClosed
	}
	if !addr.IsValid() {
		return nil, ErrAddress
	}
	s := &epollSocket{poller: p, family: familyOf(addr)}
	var err error
	if s.fd, err = openSocket(s.family, o); err != nil {
		return nil, err
	}
	if err := attach(s.fd, s.family, addr); err != nil {
		return nil, closeAfter(s.fd, err)
	}
	if s.addr, err = boundTo(s.fd); err != nil {
		return nil, closeAfter(s.fd, err)
	}
	if err := p.watch(s, s.fd, unix.EPOLLIN); err != nil {
		return nil, closeAfter(s.fd, err)
	}
	return s, nil
}

// watch adds a descriptor to the epoll set.
func (p *epollPoller) watch(w watched, fd int, events uint32) error {
	if err := p.checkDescriptor(fd); err != nil {
		return err
	}
	if err := p.waiter.set(unix.EPOLL_CTL_ADD, fd, events); err != nil {
		return err
	}
	if missing := fd + 1 - len(p.sockets); missing > 0 {
		p.sockets = append(p.sockets, make([]watched, missing)...)
	}
	p.sockets[fd] = w
	return nil
}

// unwatch ends the watch of a socket that may have copies in this or another process: the kernel removes a socket
// from the set only when its last copy closes. A socket outside the set is allowed.
func (p *epollPoller) unwatch(fd int) { _ = p.waiter.set(unix.EPOLL_CTL_DEL, fd, 0) }

// release closes a descriptor. The kernel then removes it from the epoll set if it has no copies. Errors do not
// matter, because the descriptor is closed in any case.
func (p *epollPoller) release(fd int) {
	p.sockets[fd] = nil
	_ = unix.Close(fd)
}

func (p *epollPoller) Wait(deadline time.Time) error {
	if p.closed {
		return ErrClosed
	}
	p.guest = false
	d := p.delay.next(deadline)
	p.ready = p.ready[:0] // unread input is still ready
	if p.turn++; p.turn-p.parked == turnsAlone {
		shareGoPoller()
	}
	p.idle = false
	var err error
	if len(p.pollMode.sockets) > 0 {
		p.waitPolling(deadline)
	} else {
		err = p.sleepAndPoll(d, deadline)
	}
	if p.waiter.forget() {
		p.steady.waits = 0
	}
	return err
}

// sleepAndPoll sleeps for d, and then until there is something to do.
func (p *epollPoller) sleepAndPoll(d time.Duration, deadline time.Time) error {
	if d > 0 {
		p.stats.Delays++
		if err := p.waiter.sleep(d); err != nil {
			return err
		}
	}
	// Polling first means that a busy loop neither parks nor touches the timer.
	if p.idle = !p.poll(); !p.idle || len(p.failures) > 0 {
		return nil
	}
	at := p.clock.earlier(deadline)
	if over, err := p.waitInKernel(at); over || err != nil {
		return err
	}
	if passed, err := p.deadline.set(at); passed || err != nil {
		return err
	}
	p.parked = p.turn
	return p.waiter.park(p.look)
}

// poll adds the sockets with input to ready. It reports whether there are any, or the deadline's timer has fired.
func (p *epollPoller) poll() bool {
	p.clock.beforePoll()
	n, errno := epollPoll(p.waiter.epfd, p.events[:])
	return errno == 0 && p.take(n)
}

// take adds the sockets of the first n events to ready. It reports whether there are any, or another reason to end
// the wait.
func (p *epollPoller) take(n int) bool {
	p.sawAll = n < readyBatch
	over := false
	for i := range p.events[:n] {
		if p.events[i].Fd == alarmMark {
			over = true
			continue
		}
		switch s := p.sockets[p.events[i].Fd].(type) {
		case nil: // a closed socket may still be reported while a child process before its exec holds a copy
		case *epollSocket:
			if s.idle {
				p.drainIdle(s)
				continue
			}
			p.ready = append(p.ready, readiness{s, p.events[i].Events})
		case *deadlineTimer:
			s.fired()
			over = true
		default:
			p.ready = append(p.ready, readiness{s, p.events[i].Events})
		}
	}
	return len(p.ready) > 0 || over
}

func (p *epollPoller) Wake() { p.waiter.wake() }

func (p *epollPoller) Buffer() []byte { return p.out.buffer() }

func (p *epollPoller) Send(s Socket, to netip.AddrPort, datagram []byte) {
	p.send(s, to, datagram, false)
}

func (p *epollPoller) Forward(s Socket, to netip.AddrPort, datagram []byte) {
	p.send(s, to, datagram, p.in.lend(datagram))
}

// send queues a datagram. A lent one is used in place until the next flush; others are copied.
func (p *epollPoller) send(s Socket, to netip.AddrPort, datagram []byte, lent bool) {
	switch s := s.(type) {
	case *epollSocket:
		p.queue(s, to, nil, datagram, lent)
	case *virtualSocket:
		if !s.closed {
			p.queue(s.shared.epollSocket, s.peer, s.source(), datagram, lent)
		}
	case *localSocket:
		p.queue(s.of.listener.(*epollSocket), to, s.source, datagram, lent)
	case *epollStream:
		s.send(datagram)
	}
}

// queue queues a datagram for a descriptor. The control message source sets its source address.
func (p *epollPoller) queue(s *epollSocket, to netip.AddrPort, source, datagram []byte, lent bool) {
	switch {
	case s.closed:
	case len(datagram) > MaxDatagram:
		p.stats.countSend(tooLarge, 1)
	case !p.out.push(s, to, source, datagram, lent):
		p.stats.countSend(otherFailure, 1)
	case p.out.full():
		p.out.flush()
	}
}

func (p *epollPoller) Flush() {
	p.out.flush()
	p.frames.flush()
}

func (p *epollPoller) Close() error {
	if p.closed {
		return nil
	}
	p.closed = true
	p.frames.flush()
	for _, s := range p.sockets {
		if s != nil {
			s.shut()
		}
	}
	return p.waiter.close()
}
