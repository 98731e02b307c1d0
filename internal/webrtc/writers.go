package webrtc

import (
	"context"
	"sync"

	"github.com/pion/datachannel"

	"tidegate/codec"
	"tidegate/codec/nethernet"
)

// Bytes in SCTP's own queue. The rest waits in the stack's.
const (
	mostBuffer = 256 << 10
	lowBuffer  = 64 << 10
)

// writers are goroutines that write the messages of all stacks. SCTP's writes wait for nothing but locks, so a few
// goroutines serve many stacks.
type writers struct {
	mu     sync.Mutex
	come   sync.Cond
	list   []*stack
	closed bool
	all    sync.WaitGroup
}

func (w *writers) start(n int) {
	w.come.L = &w.mu
	for range n {
		w.all.Go(w.run)
	}
}

func (w *writers) stop() {
	w.mu.Lock()
	w.closed = true
	w.come.Broadcast()
	w.mu.Unlock()
	w.all.Wait()
}

// schedule lets a goroutine write the messages of a stack.
func (w *writers) schedule(s *stack) {
	s.mu.Lock()
	again := s.outgoing.scheduled
	s.outgoing.scheduled, s.outgoing.again = true, again
	s.mu.Unlock()
	if !again {
		w.put(s)
	}
}

func (w *writers) put(s *stack) {
	w.mu.Lock()
	w.list = append(w.list, s)
	w.come.Signal()
	w.mu.Unlock()
}

func (w *writers) run() {
	for {
		w.mu.Lock()
		for len(w.list) == 0 && !w.closed {
			w.come.Wait()
		}
		if w.closed {
			w.mu.Unlock()
			return
		}
		s := w.list[0]
		w.list[0] = nil
		if w.list = w.list[1:]; len(w.list) == 0 {
			w.list = nil
		}
		w.mu.Unlock()
		if s.write() {
			w.put(s)
		}
	}
}

// outgoing are the messages of a stack that SCTP does not have yet.
type outgoing struct {
	channels  [2]*datachannel.DataChannel // reliable and unreliable; nil: not open
	messages  []message
	bytes     int // of messages
	buffered  int // bytes that SCTP had when it was last asked
	scheduled bool
	again     bool // scheduled while a goroutine wrote
	stopped   bool
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
	s.host.writers.schedule(s)
	return nil
}

// fragment is the size in bytes of the largest fragment to the peer.
func (s *stack) fragment() int { return min(nethernet.UsualFragment, int(s.mostMessage())) }

// write gives SCTP messages, as many as its queue takes. It reports whether there is more to do at once.
func (s *stack) write() (again bool) {
	var room []byte
	for {
		s.mu.Lock()
		o := &s.outgoing
		o.buffered = bufferedOf(o)
		if o.stopped || len(o.messages) == 0 || o.buffered >= mostBuffer {
			again = o.again && !o.stopped
			o.scheduled, o.again = again, false
			s.changed.Broadcast()
			s.mu.Unlock()
			return again
		}
		m := o.messages[0]
		o.messages[0] = message{}
		if o.messages = o.messages[1:]; len(o.messages) == 0 {
			o.messages = nil
		}
		o.bytes -= len(m.bytes)
		channel := o.channels[channelOf(m.reliable)]
		s.mu.Unlock()
		if err := s.note(m.bytes); err != nil {
			s.fail(codec.Incompatible, err, "This server asks for encryption, which it must not do here.")
			continue
		}
		if channel != nil {
			room = s.writeOne(channel, m, room)
		}
	}
}

// bufferedOf returns the bytes in SCTP's own queues.
func bufferedOf(o *outgoing) (n int) {
	for _, c := range o.channels {
		if c != nil {
			n += int(c.BufferedAmount())
		}
	}
	return n
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
	s.host.writers.schedule(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	for (len(s.outgoing.messages) > 0 || s.outgoing.scheduled) && ctx.Err() == nil && !s.gone {
		s.changed.Wait()
	}
}
