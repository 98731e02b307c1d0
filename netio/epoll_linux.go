package netio

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// readyBatch is how many ready sockets one Wait takes. The kernel rotates those that remain, so each gets its turn.
const readyBatch = 256

// epollPoller is the Poller over epoll, recvmmsg and sendmmsg.
//
// Its epoll descriptor is itself waited on by Go's own poller, as an os.File: an epoll descriptor is readable when one of
// its sockets is. So a waiting loop parks its goroutine and blocks no thread, and file's read deadline serves both as the
// timer and as the wake.
type epollPoller struct {
	epfd     int
	file     *os.File // of epfd
	raw      syscall.RawConn
	poll     func(epfd uintptr) bool // p.look, made once
	armed    time.Time               // the read deadline that file has,
	stale    bool                    // unless it has passed or was moved by Wake
	woken    atomic.Bool
	events   [readyBatch]unix.EpollEvent
	sockets  []*epollSocket // by descriptor
	ready    []*epollSocket // to be read by Receive
	listenIn *inbox
	dialIn   *inbox
	out      *outbox
	delay    batchDelay
	failures failures
	stats    Stats
	closed   bool
}

// newNative opens the best backend of the platform.
func newNative(o Options) (Poller, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(epfd, true); err != nil { // as os.NewFile wants it to have deadlines
		return nil, closeAfter(epfd, os.NewSyscallError("fcntl", err))
	}
	file := os.NewFile(uintptr(epfd), "epoll")
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	slab := make([]byte, listenBatch*MaxDatagram)
	p := &epollPoller{
		epfd:     epfd,
		file:     file,
		raw:      raw,
		ready:    make([]*epollSocket, 0, readyBatch),
		listenIn: newInbox(listenBatch, slab, true),
		dialIn:   newInbox(dialBatch, slab, false),
		out:      newOutbox(),
		delay:    batchDelay{max: o.MaxBatchDelay},
	}
	p.poll = p.look
	return p, nil
}

func (p *epollPoller) Listen(addr netip.AddrPort, o SocketOptions) (Socket, error) {
	s, err := p.open(addr, o.withListenDefaults(), bind)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return s, nil
}

func (p *epollPoller) Dial(to netip.AddrPort, o SocketOptions) (Socket, error) {
	s, err := p.open(to, o, connect)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", to, err)
	}
	s.peer = unmap(to)
	return s, nil
}

// open makes a socket, gives it its address by attach, and watches it.
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
	if err := p.watch(s); err != nil {
		return nil, closeAfter(s.fd, err)
	}
	return s, nil
}

// watch adds a socket to the epoll set, level-triggered: what a turn leaves unread makes the next one.
func (p *epollPoller) watch(s *epollSocket) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(s.fd)}
	if err := unix.EpollCtl(p.epfd, unix.EPOLL_CTL_ADD, s.fd, &event); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	if missing := s.fd + 1 - len(p.sockets); missing > 0 {
		p.sockets = append(p.sockets, make([]*epollSocket, missing)...)
	}
	p.sockets[s.fd] = s
	return nil
}

func (s *epollSocket) Close() {
	if s.closed {
		return
	}
	s.poller.out.flushSocket(s)
	s.poller.sockets[s.fd] = nil
	s.closed = true
	// Closing leaves the epoll set too. There is nothing to do about an error: the descriptor is gone either way.
	_ = unix.Close(s.fd)
}

func (p *epollPoller) Buffer() []byte { return p.out.buffer() }

func (p *epollPoller) Send(s Socket, to netip.AddrPort, datagram []byte) {
	socket := s.(*epollSocket)
	switch {
	case socket.closed:
	case len(datagram) > MaxDatagram:
		p.stats.countSend(tooLarge, 1)
	case !p.out.push(socket, to, datagram):
		p.stats.countSend(otherFailure, 1)
	case p.out.full():
		p.out.flush()
	}
}

func (p *epollPoller) Flush() { p.out.flush() }

func (p *epollPoller) Stats() Stats { return p.stats }

func (p *epollPoller) Close() error {
	if p.closed {
		return nil
	}
	p.closed = true
	for _, s := range p.sockets {
		if s != nil {
			s.Close()
		}
	}
	return p.file.Close()
}

// closeAfter closes a descriptor that err has made useless, and returns err.
func closeAfter(fd int, err error) error { return errors.Join(err, unix.Close(fd)) }
