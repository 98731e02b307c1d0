package netio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
)

// frameQuota is how many frames a stream may have in the backlog.
const frameQuota = 4

// portableStream is a TCP connection over package net: one goroutine dials it, if need be, and reads, another writes.
type portableStream struct {
	endpoint
	poller   *portable
	listener *portableListener // that accepted it; nil if it was dialed
	framing  framing
	out      *streamQueue
	free     chan *inFrame
	made     int           // frames in free or underway; the reader's own
	done     chan struct{} // closed by shut
	dialing  context.CancelFunc
	sent     bool // there may be something for the peer to read
	released bool
	alarm    alarm // for the first frame; once closed, for the end of lingering
	awaits   bool  // the handler has called AwaitHello for the latest frame
}

// inFrame is room for one incoming frame, which goes around as an inDatagram does.
type inFrame struct {
	stream *portableStream
	n      int
	bytes  [MaxDatagram]byte
}

// streamEnd is why a stream's reader has ended.
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

// dial is the goroutine of a stream that is dialed.
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

// read has what is sent written, and posts the frames that come, until the connection ends.
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

// postFrames posts the whole frames of b and returns what follows them.
func (s *portableStream) postFrames(b []byte) (rest []byte, err error) {
	for {
		frame, rest, err := s.framing.cut(b)
		if frame == nil || err != nil {
			return rest, err
		}
		f := s.room()
		if f == nil {
			return nil, ErrEnded // shut
		}
		f.n = copy(f.bytes[:], frame)
		s.post(f)
		b = rest
	}
}

// room is a free inFrame; nil if the stream is shut meanwhile.
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
			s.alarm.stop()
		}
	}
	s.free <- f // has room for all
}

func (e *streamEnd) deliver(*portable, Handler) {
	if e.stream.closed {
		e.stream.shut() // the peer has closed it too: the end of lingering
		return
	}
	e.stream.fail(e.err)
}
