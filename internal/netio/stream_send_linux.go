package netio

import (
	"os"

	"golang.org/x/sys/unix"
)

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
