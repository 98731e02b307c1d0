package enet

import (
	"time"

	"tidegate/codec"
)

// Sizes of commands without their payloads.
const (
	reliableOverhead   = commandLen + 2
	unreliableOverhead = commandLen + 4
	fragmentOverhead   = commandLen + fragmentLen
)

// Transmit appends one datagram to b.
func (c *Conn) Transmit(now time.Time, b []byte) ([]byte, bool) {
	start := len(b)
	if b = c.heirs.transmit(now, b); len(b) > start {
		c.stats.Sent++
		return b, true
	}
	switch {
	case c.refusal != nil:
		b, c.refusal = append(b, c.refusal...), nil
	case c.isMute():
	case c.handshake.due:
		b = c.appendHandshake(now, b)
	case c.state == closed && c.acks.len() > 0 || c.state == connected || c.state == flushing || c.state == disconnecting:
		b = c.appendDatagram(now, b)
	}
	if len(b) == start {
		return b, false
	}
	c.stats.Sent++
	return b, true
}

// appendHandshake appends a Connect or a VerifyConnect.
func (c *Conn) appendHandshake(now time.Time, b []byte) []byte {
	h := header{peer: noPeer, timed: true, time: c.clock(now)}
	if c.server {
		h.peer, h.session = c.peer, c.sessionOut
	}
	b, place := c.appendHeader(b, &h)
	if c.server {
		b = appendCommand(b, kindVerify, flagAck, controlChannel, c.control.Reliable)
		v := c.terms
		v.id, v.incoming, v.outgoing = c.secrets.ID, c.sessionOut, c.sessionIn
		v.mtu, v.window, v.channels, v.in, v.out = uint32(c.mtu), maxWindow, uint32(c.channels), 0, 0
		b = v.appendVerify(b)
	} else {
		b = appendCommand(b, kindConnect, flagAck, controlChannel, c.control.Reliable)
		b = c.terms.append(b)
	}
	c.handshake.wrote(now, h.time)
	return c.seal(b, place, !c.server)
}

// sumPlace is the place of a datagram in a buffer, and the place of its checksum.
type sumPlace struct{ start, at int }

// appendHeader appends a header, and room for a checksum.
func (c *Conn) appendHeader(b []byte, h *header) ([]byte, sumPlace) {
	place := sumPlace{start: len(b)}
	b = h.append(b)
	place.at = len(b)
	if c.summed {
		b = append(b, 0, 0, 0, 0)
	}
	return b, place
}

// seal compresses the commands of a datagram if that makes it smaller, and writes the checksum of the plain ones.
func (c *Conn) seal(b []byte, place sumPlace, noPeerYet bool) []byte {
	if c.packs && c.options.Compression != CompressionOff {
		r := c.options.coders.lend()
		defer c.options.coders.spare.Store(r)
		body := place.at
		if c.summed {
			body += checksumLen
		}
		if packed, ok := r.pack(b[body:]); ok {
			b[place.start] |= compressedBit
			return append(c.sum(b, place, noPeerYet)[:body], packed...)
		}
	}
	return c.sum(b, place, noPeerYet)
}

// sum writes the checksum.
func (c *Conn) sum(b []byte, place sumPlace, noPeerYet bool) []byte {
	if c.summed {
		id := c.terms.connectID[:]
		if noPeerYet {
			id = nil
		}
		d := b[place.start:]
		at := place.at - place.start
		be.PutUint32(d[at:], checksum(d, at, id))
	}
	return b
}

// appendDatagram appends everything that waits, in the order of its urgency: acknowledgements, repetitions, control
// commands, messages.
func (c *Conn) appendDatagram(now time.Time, b []byte) []byte {
	before := len(b)
	h := header{peer: c.peer, session: c.sessionOut, timed: c.hasReliable(), time: c.clock(now)}
	b, place := c.appendHeader(b, &h)
	empty := len(b)
	end := before + c.mtu
	if c.proofDue {
		c.acks.list, c.proofDue = append(c.acks.list, c.proof), false
	}
	if !now.Before(c.acksAt()) {
		b = c.acks.append(b, end-len(b))
	}
	if c.state != closed {
		for s := c.flight.resend.head; s != nil && len(b)+c.sizeOf(s) <= end; s = c.flight.resend.head {
			b = c.appendSent(b, s)
			c.stats.Resent++
			c.flight.sent(now, c.clock(now), s, s.timeout)
		}
		b = c.appendControl(now, b, end)
		b = c.appendMessages(now, b, end)
	}
	switch {
	case len(b) > empty:
		return c.seal(b, place, false)
	case !h.timed && c.hasReliable(): // an unreliable message has become reliable
		return c.appendDatagram(now, b[:before])
	}
	return b[:before]
}

// hasReliable reports whether the next datagram has a command that wants an acknowledgement.
func (c *Conn) hasReliable() bool {
	return c.flight.resend.count > 0 || c.pingDue || c.disconnectDue || c.nextReliable() != nil
}

// sizeOf returns the size of a reliable command.
func (c *Conn) sizeOf(s *sentCommand) int {
	switch s.kind {
	case kindFragment:
		return fragmentOverhead + s.size
	case kindReliable:
		return reliableOverhead + s.size
	}
	return commandLen + bodyLen[s.kind]
}

// appendSent appends a reliable command.
func (c *Conn) appendSent(b []byte, s *sentCommand) []byte {
	b = appendCommand(b, s.kind, flagAck, s.channel, s.seq)
	switch s.kind {
	case kindReliable:
		b = append(be.AppendUint16(b, uint16(s.size)), s.message.Payload...)
	case kindFragment:
		b = c.appendFragment(b, s.message, s.index)
	case kindDisconnect:
		b = be.AppendUint32(b, s.data)
	}
	return b
}

// appendFragment appends the body and the payload of a fragment.
func (c *Conn) appendFragment(b []byte, m *message, index uint32) []byte {
	room := fragmentRoom(c.mtu, c.summed)
	offset := int(index) * room
	part := m.Payload[offset:min(offset+room, len(m.Payload))]
	f := fragment{start: m.Start, count: m.Count, index: index, total: uint32(len(m.Payload)), offset: uint32(offset)}
	return append(f.append(b, len(part)), part...)
}

// appendControl appends the ping or the goodbye that is due.
func (c *Conn) appendControl(now time.Time, b []byte, end int) []byte {
	k := kindPing
	switch {
	case c.disconnectDue:
		k = kindDisconnect
	case !c.pingDue:
		return b
	}
	if len(b)+commandLen+bodyLen[k] > end {
		return b
	}
	c.pingDue, c.disconnectDue = false, false
	s := c.flight.command()
	s.kind, s.channel, s.seq, s.data = k, controlChannel, c.control.number(1), c.goodbye
	c.control.enter(s)
	b = c.appendSent(b, s)
	c.flight.sent(now, c.clock(now), s, c.rtt.timeout())
	return b
}

// nextReliable returns the next reliable message if the window and its channel have room for it, else nil.
func (c *Conn) nextReliable() *message {
	m := c.out.reliable.first()
	if m == nil {
		return nil
	}
	room := fragmentRoom(c.mtu, c.summed)
	part := min(len(m.Payload)-int(m.Sent)*room, room)
	if c.flight.bytes+part > c.throttle.window(c.window, c.mtu) {
		return nil
	}
	if m.Count == 0 && !c.outChannel(m.Channel).hasRoom(fragments(len(m.Payload), room)) {
		return nil
	}
	return m
}

// fragments returns the number of fragments of a message with n bytes; 1 if it needs none.
func fragments(n, room int) int { return max((n+room-1)/room, 1) }

func (c *Conn) outChannel(n uint8) *outChannel {
	if int(n) >= c.channels {
		n = 0
	}
	for len(c.outChannels) <= int(n) {
		fresh := outChannel{Unreliable: c.options.follows}
		fresh.reset(c.options.base)
		c.outChannels = append(c.outChannels, fresh)
	}
	return &c.outChannels[n]
}

// appendMessages appends messages in the order of Send. Other messages overtake a reliable one that has to wait.
func (c *Conn) appendMessages(now time.Time, b []byte, end int) []byte {
	for {
		reliable, unreliable := c.nextReliable(), c.out.unreliable.first()
		var ok bool
		switch {
		case reliable != nil && (unreliable == nil || reliable.Order < unreliable.Order && unreliable.Sent == 0):
			b, ok = c.appendReliable(now, b, end, reliable)
		case unreliable != nil:
			b, ok = c.appendUnreliable(b, end, unreliable)
		}
		if !ok {
			return b
		}
	}
}

// appendReliable appends a reliable message or its next fragment. It reports false if the datagram has no room.
func (c *Conn) appendReliable(now time.Time, b []byte, end int, m *message) ([]byte, bool) {
	room := fragmentRoom(c.mtu, c.summed)
	n := fragments(len(m.Payload), room)
	s := sentCommand{kind: kindReliable, message: m, index: m.Sent, size: min(len(m.Payload)-int(m.Sent)*room, room)}
	if n > 1 {
		s.kind = kindFragment
	}
	if len(b)+c.sizeOf(&s) > end {
		return b, false
	}
	channel := c.outChannel(m.Channel)
	if m.Count == 0 {
		m.Count, m.Unacked, m.Start = uint32(n), uint32(n), channel.number(n)
	}
	s.channel, s.seq = c.channelOf(m), m.Start+uint16(m.Sent)
	kept := c.flight.command()
	*kept = s
	channel.enter(kept)
	b = c.appendSent(b, kept)
	c.flight.sent(now, c.clock(now), kept, c.rtt.timeout())
	if m.Sent++; m.Sent == m.Count {
		c.out.reliable.pop()
	}
	return b, true
}

// channelOf returns the channel on which a message travels.
func (c *Conn) channelOf(m *message) uint8 {
	if int(m.Channel) >= c.channels {
		return 0
	}
	return m.Channel
}

// appendUnreliable appends an unreliable or unsequenced message, or the next fragment of one. It drops the message if
// the throttle says so. It reports false if the datagram has no room.
func (c *Conn) appendUnreliable(b []byte, end int, m *message) ([]byte, bool) {
	room := fragmentRoom(c.mtu, c.summed)
	n := fragments(len(m.Payload), room)
	size := unreliableOverhead + len(m.Payload)
	if n > 1 {
		size = fragmentOverhead + min(len(m.Payload)-int(m.Sent)*room, room)
	}
	switch {
	case len(b)+size > end:
		return b, false
	case m.Count > 0:
	case c.throttle.drops():
		c.stats.Lost++
		c.doneUnreliable(m)
		return b, true
	case !c.numberUnreliable(m, n):
		return b, false // the next datagram has a time
	}
	switch {
	case n > 1:
		b = appendCommand(b, kindUnreliableFragment, 0, c.channelOf(m), m.Follows)
		b = c.appendFragment(b, m, m.Sent)
	case m.Mode == codec.UnreliableSequenced:
		b = appendCommand(b, kindUnreliable, 0, c.channelOf(m), m.Follows)
		b = be.AppendUint16(be.AppendUint16(b, m.Start), uint16(len(m.Payload)))
		b = append(b, m.Payload...)
	default:
		b = appendCommand(b, kindUnsequenced, flagUnsequenced, c.channelOf(m), 0)
		b = be.AppendUint16(be.AppendUint16(b, m.Start), uint16(len(m.Payload)))
		b = append(b, m.Payload...)
	}
	if m.Sent++; m.Sent == m.Count {
		c.doneUnreliable(m)
	}
	return b, true
}

// numberUnreliable assigns a message's number. A channel may have no number left until its next reliable message. Then
// the message itself becomes reliable, as in the library, and the result is false.
func (c *Conn) numberUnreliable(m *message, fragments int) bool {
	if fragments == 1 && m.Mode == codec.Unreliable {
		c.groupOut++
		m.Count, m.Start = 1, c.groupOut
		return true
	}
	channel := c.outChannel(m.Channel)
	if channel.Unreliable == 1<<16-1 {
		m.Mode = codec.ReliableOrdered
		c.out.unreliable.pop()
		c.out.reliable.push(m)
		return false
	}
	channel.Unreliable++
	m.Count, m.Start, m.Follows = uint32(fragments), channel.Unreliable, channel.Reliable
	return true
}

// doneUnreliable forgets an unreliable message. Its fate stays unknown.
func (c *Conn) doneUnreliable(m *message) {
	c.lose(m)
	c.out.unreliable.pop()
	c.out.done(m)
}

// appendDisconnectNow appends a goodbye that wants no acknowledgement.
func (c *Conn) appendDisconnectNow(b []byte) []byte {
	b, place := c.appendHeader(b, &header{peer: c.peer, session: c.sessionOut})
	b = appendCommand(b, kindDisconnect, flagUnsequenced, controlChannel, c.control.number(1))
	return c.seal(be.AppendUint32(b, c.goodbye), place, false)
}

// appendRefusal appends a goodbye to a client that waits for its VerifyConnect.
func appendRefusal(b []byte, asks *connect, summed bool, data uint32) []byte {
	c := Conn{summed: summed, peer: asks.id & 0xfff, terms: *asks, goodbye: data}
	return c.appendDisconnectNow(b)
}
