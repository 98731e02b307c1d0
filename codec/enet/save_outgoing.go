package enet

import (
	"time"

	"tidegate/codec"
	"tidegate/codec/internal/saved"
)

// savedOutgoing has the messages and commands that are not done. Messages are known by their place in the list.
type savedOutgoing struct {
	Messages   []message     `cbor:"1,keyasint,omitempty"`
	Reliable   []int         `cbor:"2,keyasint,omitempty"` // messages that wait, or the rest of them
	Unreliable []int         `cbor:"3,keyasint,omitempty"`
	Order      uint64        `cbor:"4,keyasint,omitempty"`
	Control    outChannel    `cbor:"5,keyasint"`
	Channels   []outChannel  `cbor:"6,keyasint,omitempty"`
	Waiting    []sentCommand `cbor:"7,keyasint,omitempty"` // commands that wait for their acknowledgement
	Resend     []sentCommand `cbor:"8,keyasint,omitempty"` // commands that wait for their next transmission
	Next       time.Time     `cbor:"9,keyasint,omitempty"`
}

func (c *Conn) saveOutgoing() savedOutgoing {
	places := make(map[*message]int)
	v := savedOutgoing{Order: c.out.order, Control: c.control, Channels: c.outChannels, Next: c.flight.nextAt}
	place := func(m *message) int {
		at, known := places[m]
		if !known {
			at = len(v.Messages)
			places[m] = at
			v.Messages = append(v.Messages, *m)
		}
		return at
	}
	commands := func(l *commandList) (list []sentCommand) {
		for s := l.head; s != nil; s = s.next {
			one := *s
			if one.place = 0; s.message != nil {
				one.place = uint32(place(s.message)) + 1
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

// restoreOutgoing brings a fresh Conn, whose MTU is known, to the state of saved messages and commands.
func (c *Conn) restoreOutgoing(v *savedOutgoing) error {
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
	for i, commands := range [...][]sentCommand{v.Waiting, v.Resend} {
		list := [...]*commandList{&c.flight.waiting, &c.flight.resend}[i]
		for j := range commands {
			if err == nil {
				err = c.restoreCommand(list, commands[j], messages, unacked)
			}
		}
	}
	c.flight.nextAt = v.Next
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
func (c *Conn) restoreCommand(list *commandList, s sentCommand, messages []*message, unacked []uint32) error {
	channel := &c.control
	if s.channel != controlChannel {
		if int(s.channel) >= len(c.outChannels) {
			return saved.Fault("channel of a command", s.channel)
		}
		channel = &c.outChannels[s.channel]
	}
	switch {
	case s.seq-channel.Oldest > channel.Sent-channel.Oldest || channel.Sent+1 == channel.Oldest:
		return saved.Fault("number of a command", s.seq)
	case s.first <= 0 || s.timeout <= 0 || s.first > time.Hour || s.timeout > time.Hour || s.expired < 0:
		return saved.Fault("timeout of a command", s.timeout)
	case s.place == 0 && s.kind != kindPing && s.kind != kindDisconnect:
		return saved.Fault("kind of a command", s.kind)
	case int(s.place) > len(messages):
		return saved.Fault("message of a command", s.place)
	case s.place > 0:
		if err := c.restorePart(&s, messages[s.place-1]); err != nil {
			return err
		}
		unacked[s.place-1]++
		c.flight.messages++
	}
	if channel.find(s.seq) != nil {
		return saved.Fault("number of a command", s.seq)
	}
	newest := channel.Sent
	channel.enter(&s)
	channel.Sent = newest
	c.flight.bytes += s.size
	list.push(&s)
	return nil
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
