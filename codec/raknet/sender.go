package raknet

import (
	"time"

	"tidegate/codec"
	"tidegate/codec/internal/events"
)

// Bounds of what is sent.
const (
	// maxOpenSplits is how many split messages may be under way at once: go-raknet ends a connection with more than 16.
	maxOpenSplits = 16
	// queueLife is how long an unreliable message waits to be sent before it is dropped, as in stock RakNet.
	queueLife = time.Second
	// queueOverhead is what a queued message costs beside its bytes.
	queueOverhead = 64
	// bulkSize is the length from which on a message is bulk: the game's smaller ones may overtake it.
	bulkSize = 4096
	// urgentLeeway is how many datagrams of smaller messages, and of those sent again, may go beyond what bulk may.
	urgentLeeway = 4
)

// sender is the sending half of a connection: it numbers messages, splits and packs them into datagrams, and sends the
// reliable ones again until they are acknowledged (docs/protocols/raknet.md#recovery-and-congestion).
type sender struct {
	*sending
	mtu         int
	orderedOnly bool // as in Options
	bulkTurn    bool // of small and bulk messages, the latter go first in the next datagram
	flight      flight
	congestion  congestion
	pacer       pacer
	ackedAt     time.Duration // when something new was acknowledged
	rtt         rtt
	channels    []sendChannel
	splitID     uint16
	openSplits  int
	bytes       int // of the game's messages that have not settled
	count       int // of those
	memory      *buffers

	resent, lost uint64        // as in codec.Stats
	reliableAt   time.Duration // when something reliable was last sent
}

// sending is what a sender needs only while it has something to send or in flight.
type sending struct {
	control queue // RakNet's own messages, ahead of
	small   queue // the game's, which share the path with
	bulk    queue // its large ones, and those that must not overtake them
}

// sendChannel is the sending side of an ordering channel.
type sendChannel struct {
	order    Seq24 // of the next ordered message
	sequence Seq24 // of the next sequenced message
	bulk     int   // messages of the channel that wait in bulk
}

// setMTU fixes the size of datagrams, before the first.
func (s *sender) setMTU(mtu int) {
	s.mtu = mtu
	s.congestion = newCongestion(s.datagramSize())
}

// Sizes at an MTU, as in stock RakNet (docs/protocols/raknet.md#sizes): room is kept for 5 bytes more of datagram header
// than there are, and for the longest capsule header whatever the message's own.
func (s *sender) datagramSize() int { return s.mtu - udpOverhead - 5 }
func (s *sender) partSize() int     { return partSizeAt(s.mtu) }

func partSizeAt(mtu int) int { return mtu - udpOverhead - 9 - maxCapsuleHeaderSize }

// partsOf returns how many parts a message of size bytes has. Before the MTU is known, it may be the least.
func (s *sender) partsOf(size int) int {
	part := partSizeAt(probes[len(probes)-1])
	if s.mtu > 0 {
		part = s.partSize()
	}
	return (size + part - 1) / part
}

// outgoing returns a record for a message with its own copy of the payload.
func (s *sender) outgoing(now time.Duration, m codec.Message) *outgoing {
	o := s.memory.record()
	*o = outgoing{
		payload: s.memory.copy(m.Payload), pad: m.Pad, mode: m.Mode, channel: m.Channel, receipt: m.Receipt, queuedAt: now,
	}
	return o
}

// enqueue queues a message of the game.
func (s *sender) enqueue(now time.Duration, m codec.Message) {
	o := s.outgoing(now, m)
	if s.isBulk(&m) {
		if o.inLine = hasChannel(m.Mode); o.inLine {
			s.channel(m.Channel).bulk++
		}
		s.bulk.push(o)
	} else {
		s.small.push(o)
	}
	s.bytes += len(m.Payload)
	s.count++
}

// isBulk reports whether a message is large, or could not be delivered before a large one that waits.
func (s *sender) isBulk(m *codec.Message) bool {
	return len(m.Payload) >= bulkSize || hasChannel(m.Mode) && s.channel(m.Channel).bulk > 0
}

// channel returns the state of an ordering channel, which is made when it is first used.
func (s *sender) channel(number uint8) *sendChannel {
	for int(number) >= len(s.channels) {
		s.channels = append(s.channels, sendChannel{})
	}
	return &s.channels[number]
}

// enqueueControl queues a message of RakNet's own.
func (s *sender) enqueueControl(now time.Duration, mode codec.Mode, payload []byte, pad uint8) {
	m := s.outgoing(now, codec.Message{Payload: payload, Pad: pad, Mode: mode})
	m.control = true
	s.control.push(m)
}

// transmit appends one datagram of what is due to b, if there is something and the path has room for it. Messages of the
// game stay behind unless they are open to go.
func (s *sender) transmit(now time.Duration, b []byte, open bool) ([]byte, bool) {
	if !s.hasWork(open) {
		s.congestion.limiting, s.pacer.wakeAt = false, 0
		return b, false
	}
	bulk := s.mayTransmit(now, 0)
	if !bulk && (!s.hasUrgentWork(open) || !s.mayTransmit(now, urgentLeeway*s.datagramSize())) {
		return b, false
	}
	if n, ok := s.flight.nextRepeat(); ok {
		start := len(b)
		b = s.repeat(now, b, n)
		s.spend(len(b) - start)
		return b, true
	}
	if !s.flight.room() {
		return b, false
	}
	p := packer{s: s, now: now, start: len(b), datagram: s.flight.open(now), numbers: s.flight.numbersLeft()}
	p.b = appendDataHeader(b, s.flight.next, false, s.congestion.inSlowStart())
	p.packResends()
	p.packQueue(&s.control)
	if open {
		p.packMessages(bulk)
	}
	size := len(p.b) - p.start
	if size == datagramHeaderSize {
		return b, false
	}
	if s.hasWork(open) {
		p.b[p.start] |= bitContinuous
	}
	s.flight.commit(size)
	s.spend(size)
	return p.b, true
}

// spend takes what a datagram needs from window and pace.
func (s *sender) spend(size int) {
	s.congestion.sent(size)
	if s.rtt.smoothed != 0 {
		s.pacer.sent(size)
	}
}

// mayTransmit reports whether window and pace have room, or would have with some leeway.
func (s *sender) mayTransmit(now time.Duration, leeway int) bool {
	if !s.congestion.allows(leeway) {
		return false
	}
	if s.pacer.allows(now, s.congestion.pace(s.rtt.smoothed), s.datagramSize(), leeway) {
		return true
	}
	s.congestion.limiting = true
	return false
}

func (s *sender) hasWork(open bool) bool { return s.hasUrgentWork(open) || open && s.bulk.size > 0 }

func (s *sender) hasUrgentWork(open bool) bool {
	_, again := s.flight.nextResend()
	_, repeat := s.flight.nextRepeat()
	return again != nil || repeat || s.control.size > 0 || open && s.small.size > 0
}

// settled reports whether nothing waits to be sent or acknowledged.
func (s *sender) settled() bool {
	return s.control.size == 0 && s.small.size == 0 && s.bulk.size == 0 && s.flight.unacked == 0
}

// start numbers a message whose first part is about to be sent.
func (s *sender) start(m *outgoing) {
	if m.parts = uint32(s.partsOf(len(m.payload))); m.parts > 1 {
		m.mode = s.splitMode(m.mode)
		m.splitID = s.splitID
		s.splitID++
		s.openSplits++
	}
	if !hasChannel(m.mode) {
		return
	}
	ch := s.channel(m.channel)
	m.order = ch.order
	if isSequenced(m.mode) {
		m.sequence, ch.sequence = ch.sequence, ch.sequence.Add(1)
	} else {
		ch.order, ch.sequence = ch.order.Add(1), 0
	}
}

// splitMode is the mode in which the parts of a split message travel: a message of many parts would hardly ever arrive
// unreliably.
func (s *sender) splitMode(m codec.Mode) codec.Mode {
	switch {
	case s.orderedOnly:
		return codec.ReliableOrdered
	case m == codec.Unreliable:
		return codec.Reliable
	case m == codec.UnreliableSequenced:
		return codec.ReliableSequenced
	}
	return m
}

// finish takes a message that was delivered or given up off the books.
func (s *sender) finish(m *outgoing) {
	if m.parts > 1 {
		s.openSplits--
	}
	if !m.control {
		s.bytes -= len(m.payload)
		s.count--
	}
	s.memory.putRecord(m)
}

// abandon reports all that has not settled as lost, and lets go of it.
func (s *sender) abandon(e *events.Queue) {
	for i := range s.flight.parts {
		if m := s.flight.parts[i].message; m != nil {
			s.giveUp(m, e)
		}
	}
	s.abandonQueue(e)
	s.abandonAll(&s.control, e)
	s.flight.abandon()
	s.bytes, s.count = 0, 0
}

// abandonQueue reports the game's messages that were not sent in full as lost, and lets go of them.
func (s *sender) abandonQueue(e *events.Queue) {
	s.abandonAll(&s.small, e)
	s.abandonAll(&s.bulk, e)
}

func (s *sender) abandonAll(q *queue, e *events.Queue) {
	for m := q.peek(); m != nil; m = q.peek() {
		q.pop()
		s.giveUp(m, e)
	}
}

// giveUp reports a message as lost, and takes it off the books. Several parts may be of one message: it is reported once, and
// nobody knows which part is the last, so that only the collector may take its memory.
func (s *sender) giveUp(m *outgoing, e *events.Queue) {
	if m.receipt != 0 {
		e.Answer(m.receipt, false)
		m.receipt = 0
	}
	if m.parts <= 1 {
		s.finish(m)
	}
}

// isIdle reports whether nothing waits to be sent, acknowledged, or reported.
func (s *sender) isIdle() bool { return s.settled() && s.flight.isIdle() }
