package enet

import (
	"time"

	"tidegate/codec"
	"tidegate/codec/internal/saved"
	"tidegate/internal/record"
)

// savedOutgoing has the messages and commands that are not done. Messages are known by their place in the list.
type savedOutgoing struct {
	Messages   []savedMessage    `cbor:"1,keyasint,omitempty"`
	Reliable   []int             `cbor:"2,keyasint,omitempty"` // messages that wait, or the rest of them
	Unreliable []int             `cbor:"3,keyasint,omitempty"`
	Order      uint64            `cbor:"4,keyasint,omitempty"`
	Control    savedOutChannel   `cbor:"5,keyasint"`
	Channels   []savedOutChannel `cbor:"6,keyasint,omitempty"`
	Waiting    []savedCommand    `cbor:"7,keyasint,omitempty"` // commands that wait for their acknowledgement
	Resend     []savedCommand    `cbor:"8,keyasint,omitempty"` // commands that wait for their next transmission
	Next       record.Moment     `cbor:"9,keyasint,omitempty"`
}

type savedMessage struct {
	_              struct{} `cbor:",toarray"`
	Payload        []byte
	Mode           codec.Mode
	Channel        uint8
	Receipt        codec.Receipt
	Order          uint64
	Start, Follows uint16
	Count, Sent    uint32
	Unacked        uint32
}

type savedOutChannel struct {
	_                                  struct{} `cbor:",toarray"`
	Reliable, Unreliable, Oldest, Sent uint16
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
	v := savedOutgoing{Order: c.out.order, Control: c.control.save(), Next: record.MomentOf(now, c.flight.nextAt)}
	place := func(m *message) int {
		at, known := places[m]
		if !known {
			at = len(v.Messages)
			places[m] = at
			v.Messages = append(v.Messages, m.save())
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
	for i := range c.outChannels {
		v.Channels = append(v.Channels, c.outChannels[i].save())
	}
	return v
}

func (m *message) save() savedMessage {
	return savedMessage{
		Payload: m.payload, Mode: m.mode, Channel: m.channel, Receipt: m.receipt, Order: m.order,
		Start: m.start, Follows: m.follows, Count: m.count, Sent: m.sent, Unacked: m.unacked,
	}
}

func (c *outChannel) save() savedOutChannel {
	return savedOutChannel{Reliable: c.reliable, Unreliable: c.unreliable, Oldest: c.oldest, Sent: c.sent}
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
		if messages[i], err = v.Messages[i].restore(c); err != nil {
			return err
		}
		c.out.hold(len(messages[i].payload))
	}
	c.out.count, c.out.order = len(messages), v.Order
	err := c.control.restore(v.Control)
	c.outChannels = make([]outChannel, len(v.Channels))
	for i, one := range v.Channels {
		if err == nil {
			err = c.outChannels[i].restore(one)
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
			if m.count > 0 && m.sent >= m.count || queue == &o.unreliable && m.unacked > 0 {
				return saved.Fault("number of sent fragments", m.sent)
			}
			if queue == &o.reliable {
				unacked[at] += m.count - m.sent
			}
			queued[at] = true
			queue.push(m)
		}
	}
	for i, m := range messages {
		if m.unacked != unacked[i] || !queued[i] && m.unacked == 0 {
			return saved.Fault("number of unacknowledged fragments", m.unacked)
		}
	}
	return nil
}

// restore makes a message. Its fragments are those of the connection's MTU.
func (v *savedMessage) restore(c *Conn) (*message, error) {
	m := &message{
		payload: v.Payload, mode: v.Mode, channel: v.Channel, receipt: v.Receipt, order: v.Order,
		start: v.Start, follows: v.Follows, count: v.Count, sent: v.Sent, unacked: v.Unacked,
	}
	n := uint32(fragments(len(m.payload), fragmentRoom(c.mtu, c.summed)))
	switch {
	case !modes.Has(m.mode) || int(m.channel) >= maxChannels:
		return nil, saved.Fault("mode or channel of a message", m.mode)
	case len(m.payload) > c.options.maxPayload(codec.ReliableOrdered):
		return nil, saved.Fault("length of a message", len(m.payload))
	case m.count != 0 && m.count != n || m.sent > m.count:
		return nil, saved.Fault("number of fragments", m.count)
	}
	return m, nil
}

func (c *outChannel) restore(v savedOutChannel) error {
	*c = outChannel{reliable: v.Reliable, unreliable: v.Unreliable, oldest: v.Oldest, sent: v.Sent}
	if v.Reliable-v.Oldest+1 > maxParts || v.Sent-v.Oldest+1 > maxParts {
		return saved.Fault("numbers of a channel", v.Reliable-v.Oldest)
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
	case v.Seq-channel.oldest > channel.sent-channel.oldest || channel.sent+1 == channel.oldest:
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
	newest := channel.sent
	channel.enter(s)
	channel.sent = newest
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
	if m.count > 1 {
		want = kindFragment
	}
	if s.kind != want || s.index >= m.sent {
		return saved.Fault("kind or part of a command", s.kind)
	}
	s.message, s.size = m, min(len(m.payload)-int(s.index)*room, room)
	return nil
}
