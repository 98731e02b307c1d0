package webrtc

import (
	"context"

	"github.com/pion/datachannel"

	"tidegate/codec"
	"tidegate/codec/nethernet"
)

// Bytes in SCTP's own queue. The rest waits in the stack's.
const (
	mostBuffer = 256 << 10
	lowBuffer  = 64 << 10
)

// outgoing are the messages of a stack that SCTP does not have yet.
type outgoing struct {
	channels [2]*datachannel.DataChannel // reliable and unreliable; nil: not open
	messages []message
	bytes    int  // of messages
	buffered int  // bytes that SCTP had when it was last asked
	writing  bool // a message, which is in messages no more
	stopped  bool
}

type message struct {
	bytes    []byte
	reliable bool
}

func channelOf(reliable bool) int {
	if reliable {
		return 0
	}
	return 1
}

func (o *outgoing) has(reliable bool) bool { return o.channels[channelOf(reliable)] != nil }

func (o *outgoing) size() int { return o.bytes + o.buffered }

func (o *outgoing) add(b []byte, reliable bool) {
	o.messages = append(o.messages, message{b, reliable})
	o.bytes += len(b)
}

func (o *outgoing) stop() { o.messages, o.bytes, o.buffered, o.stopped = nil, 0, 0, true }

// Send implements nethernet.Stack.
func (s *stack) Send(b []byte, reliable bool) error {
	s.mu.Lock()
	o := &s.outgoing
	switch {
	case s.closing || o.stopped:
		s.mu.Unlock()
		return codec.ErrClosed
	case reliable && len(b) > nethernet.MaxFragments*(s.fragment()-1),
		!reliable && len(b) >= s.fragment():
		s.mu.Unlock()
		return codec.ErrTooLarge
	case o.size()+len(b) > s.host.limits.Queue:
		s.mu.Unlock()
		return codec.ErrFull
	case !reliable && !o.has(false):
		s.mu.Unlock()
		return nil // as if it was lost
	}
	o.add(append([]byte(nil), b...), reliable)
	s.mu.Unlock()
	s.wire.signal()
	return nil
}

// fragment is the size in bytes of the largest fragment to the peer.
func (s *stack) fragment() int { return min(nethernet.UsualFragment, int(s.mostMessage())) }

// next takes the next message for SCTP, if SCTP's queue has room.
func (o *outgoing) next() (m message, ok bool) {
	o.buffered = 0
	for _, c := range o.channels {
		if c != nil {
			o.buffered += int(c.BufferedAmount())
		}
	}
	o.writing = !o.stopped && len(o.messages) > 0 && o.buffered < mostBuffer
	if !o.writing {
		return m, false
	}
	m, o.messages[0] = o.messages[0], m
	if o.messages = o.messages[1:]; len(o.messages) == 0 {
		o.messages = nil
	}
	o.bytes -= len(m.bytes)
	return m, true
}

// write gives SCTP messages, as many as its queue takes.
func (s *stack) write() {
	var room []byte
	for {
		s.mu.Lock()
		m, ok := s.outgoing.next()
		channel := s.outgoing.channels[channelOf(m.reliable)]
		s.changed.Broadcast()
		s.mu.Unlock()
		if !ok {
			return
		}
		if err := s.note(m.bytes); err != nil {
			s.fail(codec.Incompatible, err, "This server asks for encryption, which it must not do here.")
		} else if channel != nil {
			room = s.writeOne(channel, m, room)
		}
	}
}

// writeOne writes a message in fragments. It returns the memory for them. An error means that the connection ends.
func (s *stack) writeOne(c *datachannel.DataChannel, m message, room []byte) []byte {
	split, err := nethernet.Split(m.bytes, s.fragment())
	if err != nil {
		return room // Send has looked
	}
	for {
		fragment, ok := split.Append(room[:0])
		if !ok {
			return room
		}
		room = fragment
		if _, err := c.Write(fragment); err != nil {
			return room
		}
	}
}

// drain waits until SCTP has all messages.
func (s *stack) drain(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		s.changed.Broadcast()
		s.mu.Unlock()
	})
	defer stop()
	s.wire.signal()
	s.mu.Lock()
	defer s.mu.Unlock()
	for (len(s.outgoing.messages) > 0 || s.outgoing.writing) && ctx.Err() == nil && !s.gone {
		s.changed.Wait()
	}
}
