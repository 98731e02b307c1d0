package netio

import (
	"os"

	"golang.org/x/sys/unix"
)

// stageSize is how many bytes of frames one write carries at most.
const stageSize = 64 << 10

// stage gathers the frames of one stream until another has something to say, so that they go in one write. It is all
// that a stream whose peer keeps up needs to send.
type stage struct {
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
	case p.stage.bytes == nil:
		p.stage.bytes = make([]byte, 0, stageSize)
	}
	if p.stage.stream != s || len(p.stage.bytes)+s.framing.prefix.size()+len(frame) > stageSize {
		p.stage.flush()
	}
	p.stage.stream = s
	p.stage.bytes = s.framing.append(p.stage.bytes, frame)
	p.stats.Out.Datagrams++
}

// flush writes what is gathered.
func (g *stage) flush() {
	if s := g.stream; s != nil {
		g.stream = nil
		s.write(g.bytes)
		g.bytes = g.bytes[:0]
	}
}

// write writes b, and puts what the kernel does not take into the backlog.
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

// drain writes the backlog, and finishes a closed stream that has none left.
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

// push gives b to the kernel and returns what it did not take. A stream that cannot be written to can often still be
// read, a refusal for instance: its end is left to read.
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

// Close sends what is queued. A stream whose peer may still have to read that lingers: to close it at once could make
// the kernel reset it, and the goodbye be lost.
func (s *epollStream) Close() {
	if s.closed {
		return
	}
	p := s.poller
	if p.stage.stream == s {
		p.stage.flush()
	}
	s.closed = true
	s.alarm.stop()
	s.rest = nil
	if s.ending || s.connecting || !s.wrote && len(s.backlog) == 0 {
		s.shut()
		return
	}
	s.alarm.due = s.shut
	p.lingers.set(&s.alarm)
	if len(s.backlog) == 0 {
		s.finish()
	}
}

// finish tells the peer that nothing more will come. An error means that it knows.
func (s *epollStream) finish() { _ = unix.Shutdown(s.fd, unix.SHUT_WR) }

// shut closes the connection, whatever is still queued.
func (s *epollStream) shut() {
	s.alarm.stop()
	s.closed = true
	s.backlog = nil
	if s.wrote { // as little as possible unread: the kernel would reset the connection, and the peer lose our last words
		s.finish()
		_, _ = recv(s.fd, s.poller.room)
	}
	s.poller.release(s.fd)
	if s.listener != nil {
		s.listener.open--
		s.listener = nil
	}
}
