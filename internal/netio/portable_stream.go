package netio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
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
