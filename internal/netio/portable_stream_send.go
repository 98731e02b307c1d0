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

// fail has the handler told that the stream is over.
func (s *portableStream) fail(err error) {
	s.poller.failures.end(s, &s.endpoint, &s.poller.stats.Streams, err)
}

// Close sends what is queued. A stream whose peer may still have to read that lingers: to close it at once could make
// the kernel reset it, and the goodbye be lost.
func (s *portableStream) Close() {
	if s.closed {
		return
	}
	s.closed = true
	s.alarm.stop()
	if s.ending || !s.sent {
		s.shut()
		return
	}
	s.out.finish()
	s.alarm.due = s.shut
	s.poller.lingers.set(&s.alarm)
}

// shut closes the connection, whatever is still queued.
func (s *portableStream) shut() {
	if s.released {
		return
	}
	s.released, s.closed = true, true
	s.alarm.stop()
	close(s.done)
	if s.dialing != nil {
		s.dialing()
	}
	s.out.shut()
	delete(s.poller.sockets, s)
	if s.listener != nil {
		s.listener.open--
	}
}

// streamQueue is what waits to be written to a stream. It joins the Poller's goroutine to the writer's.
type streamQueue struct {
	limit int // of the bytes queued and being written

	mu       sync.Mutex
	changed  sync.Cond
	bytes    []byte
	writing  int          // bytes of the write under way
	conn     *net.TCPConn // nil until it stands
	finished bool         // nothing more will be queued
	ended    bool         // nothing more will be written
}

func newStreamQueue(limit int) *streamQueue {
	q := &streamQueue{limit: limit}
	q.changed.L = &q.mu
	return q
}

// push queues a frame, or reports false if there is no room for it.
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

// open has what is queued written to the connection.
func (q *streamQueue) open(conn *net.TCPConn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.conn = conn
	if q.ended {
		_ = conn.Close()
	}
	q.changed.Signal()
}

// write is the writer's goroutine. An error is left for the reader to see.
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

// finish has the writer end the stream after what is queued.
func (q *streamQueue) finish() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.finished = true
	q.changed.Signal()
}

// hurry is finish with a limit to the time that writing takes, which is none if the connection does not stand yet.
func (q *streamQueue) hurry(limit time.Duration) {
	q.finish()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.conn != nil {
		_ = q.conn.SetWriteDeadline(time.Now().Add(limit))
	} else {
		q.ended = true
	}
}

// shut closes the connection, now or as soon as it stands.
func (q *streamQueue) shut() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	if q.conn != nil {
		_ = q.conn.Close()
	}
	q.changed.Signal()
}
