package webrtc

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"

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

// openChannels opens or accepts the data channels, and reads the second one until the end. open is called when messages
// may be sent: a client's reliable channel is there, or a server has acknowledged both. Some servers lose messages that
// come before.
func (s *stack) openChannels(a *sctp.Association, readers *sync.WaitGroup, open func()) error {
	var acknowledged atomic.Int32
	for last := range 2 {
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
		if last == 1 {
			s.read(channel, isReliable)
			return nil
		}
		readers.Go(func() { s.read(channel, isReliable) })
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
	c.OnBufferedAmountLow(func() { s.host.writers.schedule(s) })
	s.mu.Lock()
	s.outgoing.channels[channelOf(isReliable)] = c
	s.mu.Unlock()
}

// rooms are the memory that channels are read into, up to the largest message of SCTP. Readers that wait have none.
var rooms = sync.Pool{New: func() any { return new(make([]byte, nethernet.UsualFragment+1)) }}

// read reads a channel until its end.
func (s *stack) read(c *datachannel.DataChannel, isReliable bool) {
	in := nethernet.Assembler{}
	if isReliable {
		in.Limit = s.host.limits.Message
	}
	var least [4]byte // the acknowledgement of a channel fits
	for {
		buffer := least[:]
		n, _, err := c.ReadDataChannel(buffer)
		room := rooms.Get().(*[]byte)
		for errors.Is(err, io.ErrShortBuffer) && len(buffer) <= nethernet.MaxFragment {
			if len(buffer) == len(*room) {
				*room = make([]byte, min(4*len(buffer), nethernet.MaxFragment+1))
			}
			buffer = *room
			n, _, err = c.ReadDataChannel(buffer)
		}
		if err != nil {
			s.fail(codec.Closed, nil, "")
			return
		}
		message, err := s.assemble(&in, buffer[:n], isReliable)
		if err != nil {
			s.fail(codec.Violation, err, "")
			return
		}
		if message != nil && !s.deliver(message, isReliable) {
			return
		}
		rooms.Put(room)
		if in.Held() > 2*nethernet.UsualFragment && message != nil {
			in.Forget()
			s.hold(0)
		}
	}
}

// assemble takes one message of SCTP, and returns the game's message that it completes.
func (s *stack) assemble(in *nethernet.Assembler, fragment []byte, isReliable bool) ([]byte, error) {
	if !isReliable {
		if len(fragment) == 0 || fragment[0] != 0 {
			return nil, nil // it may be lost as well
		}
		return fragment[1:], nil
	}
	before := in.Held()
	message, err := in.Add(fragment)
	if now := in.Held(); now != before {
		s.hold(now)
	}
	return message, err
}
