package netio

import (
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

const (
	acceptBatch = 64  // accepted connections in a turn
	acceptQueue = 512 // connections that may wait in the kernel
)

// epollListener accepts the TCP connections of an epollPoller.
type epollListener struct {
	endpoint
	poller  *epollPoller
	fd      int
	options StreamOptions
	open    int         // accepted and not released
	hellos  *timerQueue // of connections without a first frame
	greeted hellos      // counts connections without a session
	pauses  *timerQueue
	pause   timer // ends a pause
}

func (p *epollPoller) ListenStream(addr netip.AddrPort, o StreamOptions) (Socket, error) {
	l, err := p.listenStream(addr, o)
	if err != nil {
		return nil, fmt.Errorf("listen for streams on %s: %w", addr, err)
	}
	return l, nil
}

func (p *epollPoller) listenStream(addr netip.AddrPort, o StreamOptions) (*epollListener, error) {
	fd, o, err := p.streamSocket(addr, o)
	if err != nil {
		return nil, err
	}
	l := &epollListener{poller: p, fd: fd, options: o, greeted: newHellos(o.Hellos)}
	if err := l.listen(addr); err != nil {
		return nil, closeAfter(fd, err)
	}
	return l, nil
}

func (l *epollListener) listen(addr netip.AddrPort) error {
	family := familyOf(addr)
	if err := setOption(l.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil { // after a restart
		return err
	}
	if l.options.ReusePort {
		if err := setOption(l.fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
			return err
		}
	}
	if family == unix.AF_INET6 {
		if err := setOption(l.fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0); err != nil {
			return err
		}
	}
	if err := bind(l.fd, family, addr); err != nil {
		return err
	}
	if err := unix.Listen(l.fd, acceptQueue); err != nil {
		return os.NewSyscallError("listen", err)
	}
	return l.start()
}

// start begins to accept connections.
func (l *epollListener) start() (err error) {
	if l.addr, err = boundTo(l.fd); err != nil {
		return err
	}
	p := l.poller
	if err := p.watch(l, l.fd, unix.EPOLLIN); err != nil {
		return err
	}
	l.hellos, l.pauses = p.clock.add(l.options.HelloTimeout), p.clock.add(acceptPause)
	l.pause.due = func() { l.watchFor(unix.EPOLLIN) }
	return nil
}

// handle accepts a bounded number of connections.
func (l *epollListener) handle(uint32, Handler) {
	for range acceptBatch {
		if l.closed {
			return
		}
		fd, from, err := unix.Accept4(l.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch err {
		case nil:
			l.accepted(fd, unmap(ofSockaddr(from)))
		case unix.EAGAIN:
			return
		case unix.ECONNABORTED, unix.EINTR:
		default: // no descriptor or memory is left: an immediate retry would be a busy loop
			l.poller.stats.Errors++
			l.watchFor(0)
			l.pauses.set(&l.pause)
			return
		}
	}
}

func (l *epollListener) accepted(fd int, from netip.AddrPort) {
	p := l.poller
	if l.open >= l.options.MaxConns || p.lacksDescriptors(fd) || !l.greeted.take(from) {
		p.stats.Streams.Refused++
		_ = unix.Close(fd)
		return
	}
	s := p.newStream(fd, l.options)
	s.peer, s.owner = from, l.owner
	s.events = unix.EPOLLIN
	var err error
	if s.addr, err = boundTo(fd); err == nil {
		err = p.watch(s, fd, s.events)
	}
	if err != nil {
		p.stats.Errors++
		l.greeted.leave(from)
		_ = unix.Close(fd)
		return
	}
	s.listener, s.greets = l, true
	l.open++
	p.stats.Streams.Accepted++
	s.timer.due = func() { s.fail(ErrSilent) }
	l.hellos.set(&s.timer)
}

func (l *epollListener) watchFor(events uint32) {
	if err := l.poller.waiter.set(unix.EPOLL_CTL_MOD, l.fd, events); err != nil {
		l.poller.stats.Errors++
	}
}

func (l *epollListener) Close() { l.shut() }

// shut also ends the connections without a first frame.
func (l *epollListener) shut() {
	if l.closed {
		return
	}
	l.stop()
	l.hellos.fireAll()
	l.poller.clock.drop(l.hellos)
	l.poller.clock.drop(l.pauses)
}

// stop accepts no more connections. Accepted ones continue.
func (l *epollListener) stop() {
	l.closed = true
	l.pause.stop()
	l.poller.unwatch(l.fd)
	l.poller.release(l.fd)
}
