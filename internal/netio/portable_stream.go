package netio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

// frameQuota bounds a stream's frames in the backlog.
const frameQuota = 4

// portableStream is a TCP connection over package net. One goroutine dials it, if needed, and reads; another one
// writes.
type portableStream struct {
	endpoint
	poller   *portable
	listener *portableListener // that accepted the stream; nil if it was dialed
	framing  framing
	out      *streamQueue
	free     chan *inFrame
	made     int           // frames in free or in use; only for the reader
	done     chan struct{} // closed by shut
	dialing  context.CancelFunc
	sent     bool // the peer may have data to read
	released bool
	timer    timer // for the first frame; after Close, for the end of lingering
	greets   bool  // counts as a connection without a session
	awaits   bool  // the handler has called AwaitHello for the latest frame
}

// inFrame is room for one incoming frame. It circulates like an inDatagram.
type inFrame struct {
	stream *portableStream
	n      int
	bytes  [MaxDatagram]byte
}

// streamEnd reports that a stream's reader has ended.
type streamEnd struct {
	stream *portableStream
	err    error
}

func (p *portable) DialStream(to netip.AddrPort, o StreamOptions) (Socket, error) {
	o, err := p.checkStream(to, o)
	if err != nil {
		return nil, fmt.Errorf("dial stream %s: %w", to, err)
	}
	s := p.newStream(o)
	s.peer = unmap(to)
	var ctx context.Context
	ctx, s.dialing = context.WithCancel(context.Background())
	p.stats.Streams.Dialed++
	p.readers.Go(func() { s.dial(ctx) })
	return s, nil
}

func (p *portable) checkStream(addr netip.AddrPort, o StreamOptions) (StreamOptions, error) {
	o, err := o.withDefaults()
	switch {
	case err != nil:
	case p.closed:
		err = ErrClosed
	case !addr.IsValid():
		err = ErrAddress
	case o.ReusePort:
		err = errors.ErrUnsupported
	}
	return o, err
}

func (p *portable) newStream(o StreamOptions) *portableStream {
	s := &portableStream{
		poller: p, framing: o.framing(), out: newStreamQueue(o.Backlog),
		free: make(chan *inFrame, frameQuota), done: make(chan struct{}),
	}
	p.sockets[s] = struct{}{}
	p.writers.Go(s.out.write)
	return s
}

// dial is the goroutine of a dialed stream.
func (s *portableStream) dial(ctx context.Context) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", s.peer.String())
	if err != nil {
		s.post(&streamEnd{s, err})
		return
	}
	s.read(conn.(*net.TCPConn))
}

// AwaitHello implements AcceptedStream.
func (s *portableStream) AwaitHello() { s.awaits = true }

// greeted stops counting the stream as a connection without a session.
func (s *portableStream) greeted() {
	if s.greets {
		s.greets = false
		s.listener.greeted.leave(s.peer)
	}
}

// read starts writing, and posts incoming frames until the connection ends.
func (s *portableStream) read(conn *net.TCPConn) {
	s.out.open(conn)
	room := make([]byte, s.framing.prefix.size()+s.framing.max)
	kept := 0
	for {
		n, err := conn.Read(room[kept:])
		rest, bad := s.postFrames(room[:kept+n])
		kept = copy(room, rest)
		switch {
		case bad != nil:
			err = bad
		case errors.Is(err, io.EOF):
			err = ErrEnded
		case err == nil:
			continue
		}
		s.post(&streamEnd{s, err})
		return
	}
}

// postFrames posts the whole frames of b and returns the bytes after them.
func (s *portableStream) postFrames(b []byte) (rest []byte, err error) {
	for {
		frame, rest, err := s.framing.cut(b)
		if frame == nil || err != nil {
			return rest, err
		}
		f := s.room()
		if f == nil {
			return nil, ErrEnded // the stream was shut
		}
		f.n = copy(f.bytes[:], frame)
		s.post(f)
		b = rest
	}
}

// room returns a free inFrame, or nil if the stream was shut.
func (s *portableStream) room() *inFrame {
	if len(s.free) == 0 && s.made < frameQuota {
		s.made++
		return &inFrame{stream: s}
	}
	select {
	case f := <-s.free:
		return f
	case <-s.done:
		return nil
	}
}

func (s *portableStream) post(a arrival) {
	select {
	case s.poller.backlog <- a:
	case <-s.done:
	}
}

func (f *inFrame) deliver(p *portable, h Handler) {
	s := f.stream
	if !s.closed && !s.ending {
		p.delay.handled++
		p.stats.In.add(1, f.n)
		s.awaits = false
		p.readNotifier.AfterRead()
		h.Datagram(s, s.peer, f.bytes[:f.n])
		if !s.awaits && !s.closed {
			s.timer.stop()
			s.greeted()
		}
	}
	s.free <- f // it has room for all
}

func (e *streamEnd) deliver(*portable, Handler) {
	if e.stream.closed {
		e.stream.shut() // the peer has closed it too: lingering ends
		return
	}
	e.stream.fail(e.err)
}

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
