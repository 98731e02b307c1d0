package enet

import (
	"time"

	"tidegate/codec"
	"tidegate/codec/internal/saved"
	"tidegate/internal/record"
)

// savedOutgoing has the messages and commands that are not done. Messages are known by their place in the list.
type savedOutgoing struct {
	Messages   []message      `cbor:"1,keyasint,omitempty"`
	Reliable   []int          `cbor:"2,keyasint,omitempty"` // messages that wait, or the rest of them
	Unreliable []int          `cbor:"3,keyasint,omitempty"`
	Order      uint64         `cbor:"4,keyasint,omitempty"`
	Control    outChannel     `cbor:"5,keyasint"`
	Channels   []outChannel   `cbor:"6,keyasint,omitempty"`
	Waiting    []savedCommand `cbor:"7,keyasint,omitempty"` // commands that wait for their acknowledgement
	Resend     []savedCommand `cbor:"8,keyasint,omitempty"` // commands that wait for their next transmission
	Next       record.Moment  `cbor:"9,keyasint,omitempty"`
}

type savedCommand struct {
	_              struct{} `cbor:",toarray"`
	Kind           kind
	Channel        uint8
	Seq            uint16
	Message        int // one more than its place; 0: none
	Index          uint32
	Data           uint32
	Begun, SentAt  record.Moment
	Clock          uint16
	First, Timeout time.Duration
	Expired        int
}

func (c *Conn) saveOutgoing(now time.Time) savedOutgoing {
	places := make(map[*message]int)
	v := savedOutgoing{
		Order: c.out.order, Control: c.control, Channels: c.outChannels, Next: record.MomentOf(now, c.flight.nextAt),
	}
	place := func(m *message) int {
		at, known := places[m]
		if !known {
			at = len(v.Messages)
			places[m] = at
			v.Messages = append(v.Messages, *m)
		}
		return at
	}
	commands := func(l *commandList) (list []savedCommand) {
		for s := l.head; s != nil; s = s.next {
			one := s.save(now)
			if s.message != nil {
				one.Message = place(s.message) + 1
			}
			list = append(list, one)
		}
		return list
	}
	v.Waiting, v.Resend = commands(&c.flight.waiting), commands(&c.flight.resend)
	for _, m := range c.out.reliable.list[c.out.reliable.head:] {
		v.Reliable = append(v.Reliable, place(m))
	}
	for _, m := range c.out.unreliable.list[c.out.unreliable.head:] {
		v.Unreliable = append(v.Unreliable, place(m))
	}
	return v
}

func (s *sentCommand) save(now time.Time) savedCommand {
	return savedCommand{
		Kind: s.kind, Channel: s.channel, Seq: s.seq, Index: s.index, Data: s.data,
		Begun: record.MomentOf(now, s.begun), SentAt: record.MomentOf(now, s.sentAt),
		Clock: s.clock, First: s.first, Timeout: s.timeout, Expired: s.expired,
	}
}

// restoreOutgoing brings a fresh Conn, whose MTU is known, to the state of saved messages and commands.
func (c *Conn) restoreOutgoing(now time.Time, v *savedOutgoing) error {
	if len(v.Messages) > maxMessages || len(v.Channels) > maxChannels {
		return saved.Fault("number of messages or channels", len(v.Messages))
	}
	messages := make([]*message, len(v.Messages))
	for i := range v.Messages {
		var err error
		if messages[i], err = c.restoreMessage(&v.Messages[i]); err != nil {
			return err
		}
		c.out.hold(len(messages[i].Payload))
	}
	c.out.count, c.out.order = len(messages), v.Order
	c.control, c.outChannels = v.Control, v.Channels
	err := c.control.check()
	for i := range c.outChannels {
		if err == nil {
			err = c.outChannels[i].check()
		}
	}
	unacked := make([]uint32, len(messages))
	for i, commands := range [...][]savedCommand{v.Waiting, v.Resend} {
		list := [...]*commandList{&c.flight.waiting, &c.flight.resend}[i]
		for j := range commands {
			if err == nil {
				err = c.restoreCommand(now, list, &commands[j], messages, unacked)
			}
		}
	}
	c.flight.nextAt = v.Next.Time(now)
	if err == nil {
		err = c.out.restoreQueues(v, messages, unacked)
	}
	return err
}

// restoreQueues queues the messages that wait. It checks that each message is in one queue, or in flight, and that
// its fragments without an acknowledgement are in commands or wait.
func (o *outbox) restoreQueues(v *savedOutgoing, messages []*message, unacked []uint32) error {
	queued := make([]bool, len(messages))
	for i, places := range [...][]int{v.Reliable, v.Unreliable} {
		queue := [...]*fifo{&o.reliable, &o.unreliable}[i]
		for _, at := range places {
			if at < 0 || at >= len(messages) || queued[at] {
				return saved.Fault("place of a waiting message", at)
			}
			m := messages[at]
			if m.Count > 0 && m.Sent >= m.Count || queue == &o.unreliable && m.Unacked > 0 {
				return saved.Fault("number of sent fragments", m.Sent)
			}
			if queue == &o.reliable {
				unacked[at] += m.Count - m.Sent
			}
			queued[at] = true
			queue.push(m)
		}
	}
	for i, m := range messages {
		if m.Unacked != unacked[i] || !queued[i] && m.Unacked == 0 {
			return saved.Fault("number of unacknowledged fragments", m.Unacked)
		}
	}
	return nil
}

// restoreMessage makes a message. Its fragments are those of the connection's MTU.
func (c *Conn) restoreMessage(v *message) (*message, error) {
	m := *v
	n := uint32(fragments(len(m.Payload), fragmentRoom(c.mtu, c.summed)))
	switch {
	case !modes.Has(m.Mode) || int(m.Channel) >= maxChannels:
		return nil, saved.Fault("mode or channel of a message", m.Mode)
	case len(m.Payload) > c.options.maxPayload(codec.ReliableOrdered):
		return nil, saved.Fault("length of a message", len(m.Payload))
	case m.Count != 0 && m.Count != n || m.Sent > m.Count:
		return nil, saved.Fault("number of fragments", m.Count)
	}
	return &m, nil
}

// check holds the numbers of a record to the bounds of a channel.
func (c *outChannel) check() error {
	if c.Reliable-c.Oldest+1 > maxParts || c.Sent-c.Oldest+1 > maxParts {
		return saved.Fault("numbers of a channel", c.Reliable-c.Oldest)
	}
	return nil
}

// restoreCommand adds a command to its list and to its channel.
func (c *Conn) restoreCommand(
	now time.Time, list *commandList, v *savedCommand, messages []*message, unacked []uint32,
) error {
	s := &sentCommand{
		kind: v.Kind, channel: v.Channel, seq: v.Seq, index: v.Index, data: v.Data,
		begun: v.Begun.Time(now), sentAt: v.SentAt.Time(now), clock: v.Clock,
		first: v.First, timeout: v.Timeout, expired: v.Expired,
	}
	channel := &c.control
	if v.Channel != controlChannel {
		if int(v.Channel) >= len(c.outChannels) {
			return saved.Fault("channel of a command", v.Channel)
		}
		channel = &c.outChannels[v.Channel]
	}
	switch {
	case v.Seq-channel.Oldest > channel.Sent-channel.Oldest || channel.Sent+1 == channel.Oldest:
		return saved.Fault("number of a command", v.Seq)
	case v.First <= 0 || v.Timeout <= 0 || v.First > time.Hour || v.Timeout > time.Hour || v.Expired < 0:
		return saved.Fault("timeout of a command", v.Timeout)
	case v.Message == 0 && v.Kind != kindPing && v.Kind != kindDisconnect:
		return saved.Fault("kind of a command", v.Kind)
	case v.Message < 0 || v.Message > len(messages):
		return saved.Fault("message of a command", v.Message)
	case v.Message > 0:
		if err := c.restorePart(s, messages[v.Message-1]); err != nil {
			return err
		}
		unacked[v.Message-1]++
		c.flight.messages++
	}
	if channel.holds(v.Seq) {
		return saved.Fault("number of a command", v.Seq)
	}
	newest := channel.Sent
	channel.enter(s)
	channel.Sent = newest
	c.flight.bytes += s.size
	list.push(s)
	return nil
}

// holds reports whether a command with a number is in flight.
func (c *outChannel) holds(seq uint16) bool {
	if len(c.ring) == 0 {
		return false
	}
	s := c.ring[int(seq)&(len(c.ring)-1)]
	return s != nil && s.seq == seq
}

// restorePart makes a command carry its part of a message.
func (c *Conn) restorePart(s *sentCommand, m *message) error {
	room := fragmentRoom(c.mtu, c.summed)
	want := kindReliable
	if m.Count > 1 {
		want = kindFragment
	}
	if s.kind != want || s.index >= m.Sent {
		return saved.Fault("kind or part of a command", s.kind)
	}
	s.message, s.size = m, min(len(m.Payload)-int(s.index)*room, room)
	return nil
}
