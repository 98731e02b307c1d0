package netio

import (
	"net"
	"sync"
	"time"
)

// send queues a frame.
func (s *portableStream) send(frame []byte) {
	p := s.poller
	switch {
	case s.closed || s.ending:
	case !s.framing.fits(len(frame)):
		p.stats.countSend(tooLarge, 1)
	case !s.out.push(s.framing, frame):
		s.fail(ErrSlow)
	default:
		s.sent = true
		p.stats.Out.add(1, len(frame))
	}
}

// Buffered implements Buffering. The reader's frames have a bound of their own.
func (s *portableStream) Buffered() (in, out int) {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	return 0, len(s.out.bytes) + s.out.writing
}

// fail queues the end of the stream for the handler.
func (s *portableStream) fail(err error) {
	s.poller.failures.end(s, &s.endpoint, &s.poller.stats.Streams, err)
}

// Close sends the queued data. If the peer may still have data to read, the stream lingers. Otherwise the kernel
// could reset the connection, and the goodbye would be lost.
func (s *portableStream) Close() {
	if s.closed {
		return
	}
	s.closed = true
	s.timer.stop()
	if s.ending || !s.sent {
		s.shut()
		return
	}
	s.out.finish()
	s.timer.due = s.shut
	s.poller.lingers.set(&s.timer)
}

// shut closes the connection at once, also with data still queued.
func (s *portableStream) shut() {
	if s.released {
		return
	}
	s.released, s.closed = true, true
	s.timer.stop()
	close(s.done)
	if s.dialing != nil {
		s.dialing()
	}
	s.out.shut()
	delete(s.poller.sockets, s)
	if s.listener != nil {
		s.greeted()
		s.listener.open--
	}
}

// streamQueue holds the bytes to be written to a stream. It connects the Poller's goroutine with the writer's.
type streamQueue struct {
	limit int // of queued bytes, including those being written

	mu       sync.Mutex
	changed  sync.Cond
	bytes    []byte
	writing  int          // bytes of the current write
	conn     *net.TCPConn // nil until it is established
	finished bool         // nothing more will be queued
	ended    bool         // nothing more will be written
}

func newStreamQueue(limit int) *streamQueue {
	q := &streamQueue{limit: limit}
	q.changed.L = &q.mu
	return q
}

// push queues a frame. It reports false if there is no room for it.
func (q *streamQueue) push(f framing, frame []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.writing+len(q.bytes)+f.prefix.size()+len(frame) > q.limit {
		return false
	}
	q.bytes = f.append(q.bytes, frame)
	q.changed.Signal()
	return true
}

// open starts writing to the connection.
func (q *streamQueue) open(conn *net.TCPConn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.conn = conn
	if q.ended {
		_ = conn.Close()
	}
	q.changed.Signal()
}

// write is the writer's goroutine. It leaves errors to the reader.
func (q *streamQueue) write() {
	q.mu.Lock()
	defer q.mu.Unlock()
	var b []byte
	for !q.ended {
		switch {
		case q.conn == nil || len(q.bytes) == 0 && !q.finished:
			q.changed.Wait()
			continue
		case len(q.bytes) == 0:
			_ = q.conn.CloseWrite()
			return
		}
		b, q.bytes = q.bytes, b[:0]
		q.writing = len(b)
		q.mu.Unlock()
		_, err := q.conn.Write(b)
		q.mu.Lock()
		q.writing = 0
		if err != nil {
			return
		}
	}
}

// finish makes the writer end the stream after the queued data.
func (q *streamQueue) finish() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.finished = true
	q.changed.Signal()
}

// finishWithin is finish with a limit for the time of writing. If the connection is not established yet, nothing is
// written.
func (q *streamQueue) finishWithin(limit time.Duration) {
	q.finish()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.conn != nil {
		_ = q.conn.SetWriteDeadline(time.Now().Add(limit))
	} else {
		q.ended = true
	}
}

// shut closes the connection, now or as soon as it is established.
func (q *streamQueue) shut() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	if q.conn != nil {
		_ = q.conn.Close()
	}
	q.changed.Signal()
}
