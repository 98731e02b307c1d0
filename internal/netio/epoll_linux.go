package netio

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
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
	foreseer     Foreseer     // of this Receive; nil: none
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
	if fd >= p.bound {
		return os.NewSyscallError("socket", unix.EMFILE)
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
				if !discard(s.fd) {
					s.idleSince = p.turn
				}
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

// Poll mode. Each datagram at a socket in an epoll set runs the set's wake-up path in the kernel. That takes 0.3 µs
// of the receiving core (Linux 6.18), an eighth of the cost of refusing the datagram. So a flooded listening socket
// leaves the set. Until it is calm, it is read at intervals, as NAPI polls a network card without interrupts.
const (
	pollInterval = 250 * time.Microsecond
	// a flood has at least this many refused datagrams in a turn, and half of all
	floodMinimum = 64
	calmRead     = 16 // a turn with fewer datagrams is calm
	calmTurns    = 16 // number of calm turns that end poll mode
)

// pollMode holds the listening sockets in poll mode.
type pollMode struct {
	sockets []*epollSocket
	busy    []*epollSocket // watched ones with a full batch in this turn
}

// pollState is the load of a socket. Every socket has one, so it is small.
type pollState struct {
	read   uint16 // datagrams in the last turn
	calm   uint8  // calm turns in a row
	active bool
}

// read notes the number of datagrams of a listening socket in this turn.
func (p *pollMode) read(s *epollSocket, datagrams int) {
	s.pollState.read = uint16(min(datagrams, math.MaxUint16))
	if !s.pollState.active && datagrams >= listenBatch {
		p.busy = append(p.busy, s)
	}
}

// waitPolling makes all sockets in poll mode ready. If the last turn has left no input, it first sleeps.
func (p *epollPoller) waitPolling(deadline time.Time) {
	if !p.unread {
		rest := pollInterval
		if !deadline.IsZero() {
			rest = min(rest, time.Until(deadline))
		}
		if rest > 0 {
			nap(rest)
		}
	}
	for _, s := range p.pollMode.sockets {
		p.ready = append(p.ready, readiness{s, unix.EPOLLIN})
	}
	p.poll()
}

// updatePollMode ends a turn. Flooded sockets enter poll mode, and calm ones leave it.
func (p *epollPoller) updatePollMode(h Handler) {
	refused := 0
	if r, ok := h.(DropReporter); ok {
		refused = r.Refused()
	}
	if len(p.pollMode.busy) > 0 {
		p.enterPollMode(refused)
		clear(p.pollMode.busy)
		p.pollMode.busy = p.pollMode.busy[:0]
	}
	left := p.pollMode.sockets[:0]
	for _, s := range p.pollMode.sockets {
		if !s.closed && !p.leavePollMode(s) {
			left = append(left, s)
		}
	}
	clear(p.pollMode.sockets[len(left):])
	p.pollMode.sockets = left
}

// enterPollMode moves the busy sockets into poll mode if most datagrams of this turn were refused.
func (p *epollPoller) enterPollMode(refused int) {
	read := 0
	for _, s := range p.pollMode.busy {
		read += int(s.pollState.read)
	}
	if refused < floodMinimum || refused < read/2 {
		return
	}
	for _, s := range p.pollMode.busy {
		if !s.closed && p.waiter.set(unix.EPOLL_CTL_DEL, s.fd, 0) == nil {
			s.pollState = pollState{read: s.pollState.read, active: true}
			p.pollMode.sockets = append(p.pollMode.sockets, s)
		}
	}
}

// leavePollMode watches a calm socket again, and reports whether it did.
func (p *epollPoller) leavePollMode(s *epollSocket) bool {
	if s.pollState.calm++; s.pollState.read >= calmRead {
		s.pollState.calm = 0
	}
	if s.pollState.calm < calmTurns || p.waiter.set(unix.EPOLL_CTL_ADD, s.fd, unix.EPOLLIN) != nil {
		return false
	}
	s.pollState = pollState{}
	return true
}
