package netio

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// streamRead is the size in bytes of one read of a stream.
const streamRead = 256 << 10

// epollStream is a TCP connection of an epollPoller.
type epollStream struct {
	endpoint
	poller     *epollPoller
	fd         int
	listener   *epollListener // that accepted the stream; nil if it was dialed
	framing    framing
	rest       []byte // start of an incomplete frame
	backlog    []byte // bytes that the kernel did not take yet
	limit      int    // of backlog, in bytes
	connecting bool
	wrote      bool   // the peer may have data to read
	events     uint32 // events in the epoll set
	timer      timer  // for the first frame; after Close, for the end of lingering
	greets     bool   // counts as a connection without a session
	awaits     bool   // the handler has called AwaitHello for the latest frame
}

// Buffered implements Buffering.
func (s *epollStream) Buffered() (in, out int) { return len(s.rest), cap(s.backlog) }

// AwaitHello implements AcceptedStream.
func (s *epollStream) AwaitHello() { s.awaits = true }

func (p *epollPoller) DialStream(to netip.AddrPort, o StreamOptions) (Socket, error) {
	s, err := p.dialStream(to, o)
	if err != nil {
		return nil, fmt.Errorf("dial stream %s: %w", to, err)
	}
	return s, nil
}

func (p *epollPoller) dialStream(to netip.AddrPort, o StreamOptions) (*epollStream, error) {
	fd, o, err := p.streamSocket(to, o)
	if err != nil {
		return nil, err
	}
	connectErr := connect(fd, familyOf(to), to)
	if errors.Is(connectErr, unix.EINPROGRESS) {
		connectErr = nil
	}
	if connectErr != nil && classify(connectErr).err() == nil {
		return nil, closeAfter(fd, connectErr)
	}
	s := p.newStream(fd, o)
	s.peer = unmap(to)
	s.connecting = true
	if s.addr, err = boundTo(fd); err != nil {
		return nil, closeAfter(fd, err)
	}
	s.events = unix.EPOLLIN | unix.EPOLLOUT
	if err := p.watch(s, fd, s.events); err != nil {
		return nil, closeAfter(fd, err)
	}
	p.stats.Streams.Dialed++
	if connectErr != nil {
		s.fail(connectErr)
	}
	return s, nil
}

func (p *epollPoller) newStream(fd int, o StreamOptions) *epollStream {
	return &epollStream{poller: p, fd: fd, framing: o.framing(), limit: o.Backlog}
}

// streamSocket makes a non-blocking TCP socket for an address, and fills in the options' defaults.
func (p *epollPoller) streamSocket(addr netip.AddrPort, o StreamOptions) (int, StreamOptions, error) {
	o, err := o.withDefaults()
	switch {
	case err != nil:
		return -1, o, err
	case p.closed:
		return -1, o, ErrClosed
	case !addr.IsValid():
		return -1, o, ErrAddress
	}
	fd, err := unix.Socket(familyOf(addr), unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return -1, o, os.NewSyscallError("socket", err)
	}
	if err := setOption(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil { // accepted connections inherit it
		return -1, o, closeAfter(fd, err)
	}
	return fd, o, nil
}

func (s *epollStream) handle(events uint32, h Handler) {
	if s.poller.sockets[s.fd] != watched(s) {
		return // closed meanwhile
	}
	if s.connecting && !s.connected() {
		return
	}
	if events&unix.EPOLLOUT != 0 {
		s.drain()
	}
	if events&^unix.EPOLLOUT != 0 {
		s.read(h)
	}
}

// connected takes the result of the pending connect.
func (s *epollStream) connected() bool {
	errno, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && errno == 0 {
		s.connecting = false
		return true
	}
	if err == nil {
		err = os.NewSyscallError("connect", syscall.Errno(errno))
	}
	s.fail(err)
	return false
}

// read delivers the frames of one read. There is only one read in a turn, so a flood cannot starve other sockets.
func (s *epollStream) read(h Handler) {
	room := s.poller.room
	kept := copy(room, s.rest)
	n, errno := recv(s.fd, room[kept:])
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
	case s.closed:
		if n <= 0 {
			s.shut() // the peer has closed it too: lingering ends
		}
	case errno != 0:
		s.fail(os.NewSyscallError("read", errno))
	case n == 0:
		s.fail(ErrEnded)
	default:
		s.poller.readNotifier.AfterRead()
		s.deliver(room[:kept+n], n, h)
	}
}

// deliver gives h the whole frames of b and keeps the rest. The last n bytes of b are new.
func (s *epollStream) deliver(b []byte, n int, h Handler) {
	p := s.poller
	frames := 0
	defer func() { p.stats.In.add(frames, n) }()
	for !s.closed && !s.ending {
		frame, rest, err := s.framing.cut(b)
		if err != nil {
			s.fail(err)
			return
		}
		if frame == nil {
			s.keep(rest)
			return
		}
		b = rest
		frames++
		p.delay.handled++
		s.awaits = false
		h.Datagram(s, s.peer, frame)
		if !s.awaits && !s.closed {
			s.timer.stop()
			s.greeted()
		}
	}
}

// greeted stops counting the stream as a connection without a session.
func (s *epollStream) greeted() {
	if s.greets {
		s.greets = false
		s.listener.greeted.leave(s.peer)
	}
}

// keep keeps the start of a frame for the next read.
func (s *epollStream) keep(rest []byte) {
	if len(rest) == 0 && len(s.rest) == 0 {
		return
	}
	s.rest = append(s.rest[:0], rest...)
}

// fail queues the end of the stream for the handler.
func (s *epollStream) fail(err error) {
	s.poller.failures.end(s, &s.endpoint, &s.poller.stats.Streams, err)
}

// stageSize is the largest number of bytes in one write of frames.
const stageSize = 64 << 10

// frameBuffer collects the frames of one stream until another stream sends, so that they leave in one write. A stream
// whose peer keeps up needs no other buffer.
type frameBuffer struct {
	stream *epollStream
	bytes  []byte
}

// send queues a frame.
func (s *epollStream) send(frame []byte) {
	p := s.poller
	switch {
	case s.closed || s.ending:
		return
	case !s.framing.fits(len(frame)):
		p.stats.countSend(tooLarge, 1)
		return
	case p.frames.bytes == nil:
		p.frames.bytes = make([]byte, 0, stageSize)
	}
	if p.frames.stream != s || len(p.frames.bytes)+s.framing.prefix.size()+len(frame) > stageSize {
		p.frames.flush()
	}
	p.frames.stream = s
	p.frames.bytes = s.framing.append(p.frames.bytes, frame)
	p.stats.Out.Datagrams++
}

// flush writes the collected frames.
func (g *frameBuffer) flush() {
	if s := g.stream; s != nil {
		g.stream = nil
		s.write(g.bytes)
		g.bytes = g.bytes[:0]
	}
}

// write writes b. The backlog takes the bytes that the kernel does not accept.
func (s *epollStream) write(b []byte) {
	if s.ending {
		return
	}
	if len(s.backlog) == 0 && !s.connecting {
		b = s.push(b)
	}
	switch {
	case len(b) == 0:
	case len(s.backlog)+len(b) > s.limit:
		s.fail(ErrSlow)
	default:
		s.backlog = append(s.backlog, b...)
		s.watchFor(unix.EPOLLIN | unix.EPOLLOUT)
	}
}

// drain writes the backlog, and finishes a closed stream without one.
func (s *epollStream) drain() {
	if len(s.backlog) > 0 {
		s.backlog = s.push(s.backlog)
	}
	if len(s.backlog) > 0 {
		return
	}
	s.backlog = nil
	s.watchFor(unix.EPOLLIN)
	if s.closed {
		s.finish()
	}
}

// push gives b to the kernel and returns the unaccepted bytes. A stream that cannot be written can often still be
// read, for instance a refusal. So its end is left to read.
func (s *epollStream) push(b []byte) []byte {
	n, errno := send(s.fd, b)
	switch errno {
	case 0:
		s.wrote = true
		s.poller.stats.Out.add(0, n)
		return b[n:]
	case unix.EAGAIN, unix.EINTR:
		return b
	case unix.EPIPE, unix.ECONNRESET:
		return nil
	}
	s.fail(os.NewSyscallError("write", errno))
	return nil
}

func (s *epollStream) watchFor(events uint32) {
	if s.events == events {
		return
	}
	s.events = events
	if err := s.poller.waiter.set(unix.EPOLL_CTL_MOD, s.fd, events); err != nil {
		s.fail(err)
	}
}

// Close sends the queued data. If the peer may still have data to read, the stream lingers. Otherwise the kernel
// could reset the connection, and the goodbye would be lost.
func (s *epollStream) Close() {
	if s.closed {
		return
	}
	p := s.poller
	if p.frames.stream == s {
		p.frames.flush()
	}
	s.closed = true
	s.timer.stop()
	s.rest = nil
	if p.guest || s.ending || s.connecting || !s.wrote && len(s.backlog) == 0 {
		s.shut()
		return
	}
	s.timer.due = s.shut
	p.lingers.set(&s.timer)
	if len(s.backlog) == 0 {
		s.finish()
	}
}

// finish tells the peer that no more data will come. On an error, the peer already knows.
func (s *epollStream) finish() { _ = unix.Shutdown(s.fd, unix.SHUT_WR) }

// shut closes the connection at once, also with data still queued.
func (s *epollStream) shut() {
	s.timer.stop()
	s.closed = true
	s.backlog = nil
	if s.wrote && !s.poller.guest {
		// Unread input would make the kernel reset the connection, and the peer would lose the last data.
		s.finish()
		_, _ = recv(s.fd, s.poller.room)
	}
	s.poller.release(s.fd)
	if s.listener != nil {
		s.greeted()
		s.listener.open--
		s.listener = nil
	}
}
