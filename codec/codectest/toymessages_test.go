package codectest

import (
	"encoding/binary"
	"time"

	"tidegate/codec"
)

// toyHeaderLen is the length of a message datagram before its payload:
//
//	0      toyMessage
//	1      mode
//	2      pad
//	3..4   message ID
//	5..6   sequence
//	7..8   order, of ReliableOrdered
const toyHeaderLen = 9

// toyOut holds the messages that a toy connection sends.
type toyOut struct {
	slots     [toySlots]toySlot
	nextSeq   toySeq
	nextOrder toySeq
}

// toySlot is a message that waits to be sent or acknowledged.
type toySlot struct {
	used, pending bool
	seq           toySeq
	mode          codec.Mode
	receipt       codec.Receipt
	sent          time.Time // last transmission; zero: none yet
	resent        bool
	datagram      []byte
	lent          []byte // the payload slice of Send itself, against the law
}

// toyIn holds the state of received messages.
type toyIn struct {
	seen      [toyWindow]int // sequence number plus 1 of the last message in each place
	newest    toySeq
	sequenced toySeq // newest of a sequenced mode
	notified  toySeq // newest Notify
	expected  toySeq // order
	held      [toySlots]toyHeld
	acks      []toySeq
	hoard     [][]byte
}

// toyHeld is an ordered message that waits for earlier ones.
type toyHeld struct {
	used    bool
	message codec.Message
}

func (c *toyConn) Send(now time.Time, m codec.Message) error {
	switch {
	case c.over && c.fault != "sends when closed":
		return codec.ErrClosed
	case m.Mode > codec.Notify && c.fault != "takes any mode":
		return codec.ErrMode
	case len(m.Payload) > toyMaxPayload && c.fault != "takes any size":
		return codec.ErrTooLarge
	case m.Channel >= 2 && c.fault == "drops far channels":
		return nil
	case m.Channel >= 2 && c.fault == "refuses far channels":
		return codec.ErrMode
	}
	for i := range c.slots {
		if s := &c.slots[i]; !s.used {
			c.fill(s, m)
			return nil
		}
	}
	if c.fault == "drops when full" {
		return nil
	}
	return codec.ErrFull
}

func (c *toyConn) fill(s *toySlot, m codec.Message) {
	if c.fault == "allocates" {
		s.datagram = nil
	}
	b := append(s.datagram[:0], toyMessage, byte(m.Mode), m.Pad)
	b = binary.BigEndian.AppendUint16(b, m.ID)
	b = binary.BigEndian.AppendUint16(b, uint16(c.nextSeq))
	b = binary.BigEndian.AppendUint16(b, uint16(c.nextOrder))
	*s = toySlot{
		used: true, pending: true, seq: c.nextSeq, mode: m.Mode, receipt: m.Receipt, datagram: append(b, m.Payload...),
	}
	if c.fault == "keeps the payload" {
		s.lent = m.Payload
	}
	c.nextSeq++
	if m.Mode == codec.ReliableOrdered {
		c.nextOrder++
	}
}

// release frees a slot and answers its receipt.
func (c *toyConn) release(s *toySlot, answer codec.EventKind) {
	s.used, s.pending = false, false
	if s.receipt == 0 {
		return
	}
	c.push(codec.Event{Kind: answer, Message: codec.Message{Receipt: s.receipt}})
	if c.fault == "receipt twice" {
		c.push(codec.Event{Kind: answer, Message: codec.Message{Receipt: s.receipt}})
	}
}

func (c *toyConn) acknowledged(now time.Time, seq toySeq) {
	for i := range c.slots {
		s := &c.slots[i]
		if !s.used || s.seq != seq || s.sent.IsZero() || s.mode == codec.Notify && c.fault == "never reports" {
			continue
		}
		if !s.resent {
			c.stats.RTT = now.Sub(s.sent)
		}
		c.release(s, codec.Delivered)
	}
}

// advanceSlots resends due messages, and gives up messages of modes that never resend.
func (c *toyConn) advanceSlots(now time.Time) {
	for i := range c.slots {
		s := &c.slots[i]
		if !s.used || s.sent.IsZero() || now.Before(s.due()) {
			continue
		}
		switch {
		case !s.mode.IsReliable():
			c.release(s, codec.Lost)
		case c.fault == "forgets to resend":
			c.release(s, codec.Delivered)
		default:
			s.pending, s.resent, s.sent = true, true, now
			c.stats.Resent++
		}
	}
}

func (s *toySlot) due() time.Time {
	if s.mode.IsReliable() {
		return s.sent.Add(toyResend)
	}
	return s.sent.Add(toyReport)
}

func (c *toyConn) nextSlotTimeout(next time.Time) time.Time {
	for i := range c.slots {
		if s := &c.slots[i]; s.used && !s.sent.IsZero() {
			next = codec.Earliest(next, s.due())
		}
	}
	return next
}

// appendMessage appends the pending message with the lowest sequence number.
func (c *toyConn) appendMessage(now time.Time, b []byte) ([]byte, bool) {
	var first *toySlot
	for i := range c.slots {
		if s := &c.slots[i]; s.pending && (first == nil || s.seq.before(first.seq)) {
			first = s
		}
	}
	if first == nil || !c.joined || c.tentative {
		return b, false
	}
	first.pending, first.sent = false, now
	b = append(b, first.datagram...)
	copy(b[len(b)-len(first.lent):], first.lent)
	switch {
	case c.fault == "reports too early":
		c.release(first, codec.Delivered)
	case first.mode == codec.Unreliable || first.mode == codec.UnreliableSequenced:
		c.release(first, codec.Lost) // the fate of an Unreliable message stays unknown
	}
	return b, true
}

func (c *toyConn) receiveMessage(body []byte) error {
	m := codec.Message{
		Mode: codec.Mode(body[1]), Pad: body[2], HasID: true, ID: binary.BigEndian.Uint16(body[3:]),
		Payload: body[toyHeaderLen:],
	}
	seq, order := toySeq(binary.BigEndian.Uint16(body[5:])), toySeq(binary.BigEndian.Uint16(body[7:]))
	if m.Mode == codec.ReliableOrdered && order-c.expected >= toySlots && !order.before(c.expected) {
		return codec.ErrWindow
	}
	duplicate := c.duplicate(seq)
	if (!duplicate || m.Mode != codec.Notify) && m.Mode != codec.Unreliable && m.Mode != codec.UnreliableSequenced {
		c.acks = append(c.acks, seq)
	}
	if duplicate && c.fault != "delivers duplicates" {
		return codec.ErrDuplicate
	}
	c.deliver(m, seq, order)
	return nil
}

// duplicate reports whether a sequence number was seen before, or is too old to tell.
func (c *toyConn) duplicate(seq toySeq) bool {
	place := &c.seen[seq%toyWindow]
	tooOld := seq.before(c.newest - toyWindow)
	if c.fault == "compares without wrap" {
		tooOld = int(seq) < int(c.newest)-toyWindow
	}
	if *place == int(seq)+1 || tooOld {
		return true
	}
	*place = int(seq) + 1
	if c.newest.before(seq) {
		c.newest = seq
	}
	return false
}

func (c *toyConn) deliver(m codec.Message, seq, order toySeq) {
	switch m.Mode {
	case codec.UnreliableSequenced, codec.ReliableSequenced:
		if seq.before(c.sequenced) && c.fault != "goes backwards" {
			return
		}
		c.sequenced = seq
	case codec.Notify:
		if seq.before(c.notified) {
			c.acks = c.acks[:len(c.acks)-1] // the message does not count as arrived
			return
		}
		c.notified = seq
	case codec.ReliableOrdered:
		if c.fault != "reorders" {
			c.deliverInOrder(m, order)
			return
		}
	}
	c.received(m)
}

// deliverInOrder delivers an ordered message and the messages that waited for it. If an earlier message is missing, it
// holds the message.
func (c *toyConn) deliverInOrder(m codec.Message, order toySeq) {
	if order != c.expected {
		h := &c.held[order%toySlots]
		kept := append(h.message.Payload[:0], m.Payload...)
		if c.fault == "keeps the datagram" {
			kept = m.Payload
		}
		h.used, h.message = true, m
		h.message.Payload = kept
		return
	}
	c.received(m)
	for c.expected++; c.held[c.expected%toySlots].used; c.expected++ {
		h := &c.held[c.expected%toySlots]
		h.used = false
		c.received(h.message)
	}
}

func (c *toyConn) received(m codec.Message) {
	switch c.fault {
	case "loses the pad":
		m.Pad = 0
	case "loses the ID":
		m.ID = 0
	}
	c.push(codec.Event{Kind: codec.Received, Message: m})
}
