package webrtc

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/datachannel"
	"github.com/pion/sctp"

	"tidegate/codec"
	"tidegate/codec/nethernet"
)

// Streams of the channels that we open: DTLS's server owns the odd ones.
const (
	reliableStream   = 1
	unreliableStream = 3
)

var errNoChannel = errors.New("the peer has opened other channels than NetherNet's")

// openChannels opens or accepts the data channels. It calls open when messages may be sent: a client's reliable channel
// is there, or a server has acknowledged both. Some servers lose messages that come before.
func (s *stack) openChannels(a *sctp.Association, open func()) error {
	var acknowledged atomic.Int32
	for range 2 {
		channel, isReliable, err := s.nextChannel(a)
		if err != nil {
			return err
		}
		channel.OnOpen(func() { // only on a channel that we open
			if acknowledged.Add(1) == 2 {
				s.open(open)
			}
		})
		s.begin(channel, isReliable)
		if isReliable && !s.dials {
			s.open(open)
		}
		s.wire.signal() // messages may have come already
	}
	return nil
}

// nextChannel returns the next channel, and whether it is the reliable one.
func (s *stack) nextChannel(a *sctp.Association) (c *datachannel.DataChannel, isReliable bool, err error) {
	s.mu.Lock()
	isFirst := !s.outgoing.has(true)
	s.mu.Unlock()
	if s.dials {
		o := &datachannel.Config{Label: nethernet.ReliableLabel, LoggerFactory: quiet}
		id := uint16(reliableStream)
		if !isFirst {
			o.Label, o.ChannelType = nethernet.UnreliableLabel, datachannel.ChannelTypePartialReliableRexmitUnordered
			id = unreliableStream
		}
		c, err = datachannel.Dial(a, id, o)
		return c, isFirst, err
	}
	c, err = datachannel.Accept(a, &datachannel.Config{LoggerFactory: quiet})
	if err != nil {
		return nil, false, err
	}
	isReliable = c.Label == nethernet.ReliableLabel
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outgoing.has(isReliable) || !isReliable && c.Label != nethernet.UnreliableLabel {
		return nil, false, errNoChannel
	}
	return c, isReliable, nil
}

// open tells the owner that messages may be sent. It calls first before.
func (s *stack) open(first func()) {
	first()
	s.mu.Lock()
	s.out.Open = s.out.Open || !s.closing
	s.tell()
}

// begin lets messages pass on a channel.
func (s *stack) begin(c *datachannel.DataChannel, isReliable bool) {
	c.SetBufferedAmountLowThreshold(lowBuffer)
	c.OnBufferedAmountLow(s.wire.signal)
	_ = c.SetReadDeadline(time.Unix(1, 0)) // reads do not wait; never fails
	s.mu.Lock()
	s.outgoing.channels[channelOf(isReliable)] = c
	s.mu.Unlock()
}

// rooms are the memory that channels are read into, up to the largest message of SCTP.
var rooms = sync.Pool{New: func() any { return new(make([]byte, nethernet.UsualFragment+1)) }}

// receive gives the owner the messages that SCTP has put together, as long as it wants some. It does not wait for the
// peer. SCTP's reader calls it, and run once that has ended.
func (s *stack) receive() {
	room := rooms.Get().(*[]byte)
	defer rooms.Put(room)
	for i := range s.outgoing.channels {
		for c := s.readable(i); c != nil && s.readOne(c, room, i == channelOf(true)); c = s.readable(i) {
		}
	}
}

// readable returns a channel, or nil if it is not open, or the owner wants nothing of it.
func (s *stack) readable(i int) *datachannel.DataChannel {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left = !s.wants(); s.left || s.closing {
		return nil
	}
	return s.outgoing.channels[i]
}

// receiveLast is receive at the end of SCTP. It waits until the owner wants the rest.
func (s *stack) receiveLast() {
	for more := true; more; {
		s.receive()
		s.mu.Lock()
		for s.left && !s.closing && !s.wants() {
			s.changed.Wait()
		}
		more = s.left && !s.closing
		s.mu.Unlock()
	}
	s.fail(codec.Closed, nil, "")
}

// readOne reads a message of SCTP. It reports false if there is none.
func (s *stack) readOne(c *datachannel.DataChannel, room *[]byte, isReliable bool) bool {
	n, _, err := c.ReadDataChannel(*room)
	for errors.Is(err, io.ErrShortBuffer) && len(*room) <= nethernet.MaxFragment {
		*room = make([]byte, min(4*len(*room), nethernet.MaxFragment+1))
		n, _, err = c.ReadDataChannel(*room)
	}
	if err != nil {
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			s.fail(codec.Closed, nil, "")
		}
		return false
	}
	message, err := s.assemble((*room)[:n], isReliable)
	if err != nil {
		s.fail(codec.Violation, err, "")
		return false
	}
	if message != nil {
		s.deliver(message, isReliable)
		if s.in.Held() > 2*nethernet.UsualFragment && isReliable {
			s.in.Forget()
			s.hold(0)
		}
	}
	return true
}

// assemble takes one message of SCTP, and returns the game's message that it completes.
func (s *stack) assemble(fragment []byte, isReliable bool) ([]byte, error) {
	if !isReliable {
		if len(fragment) == 0 || fragment[0] != 0 {
			return nil, nil // it may be lost as well
		}
		return fragment[1:], nil
	}
	before := s.in.Held()
	message, err := s.in.Add(fragment)
	if now := s.in.Held(); now != before {
		s.hold(now)
	}
	return message, err
}
