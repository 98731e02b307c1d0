package raknet

import (
	"time"

	"tidegate/codec"
	"tidegate/codec/internal/events"
)

// Bounds of a sender.
const (
	// maxOpenSplits is the number of split messages to a server that may be under way at once: go-raknet's listener ends
	// a connection with more than 16. RakLib acknowledges the parts of a fifth, and drops them.
	maxOpenSplits = 16
	fewOpenSplits = 4
	// openSplitIDs is the number of split messages to a client. Cloudburst keeps them by the low byte of their IDs, so
	// that two under way must differ in it. Other clients have no bound.
	openSplitIDs = 256
	// queueLife is how long an unreliable message waits to be sent before it is dropped, as in stock RakNet.
	queueLife = time.Second
	// queueOverhead is the cost of a queued message in bytes, in addition to its payload.
	queueOverhead = 64
	// bulkSize is the length from which on a message is bulk. The game's smaller messages may overtake it.
	bulkSize = 4096
	// urgentLeeway is the number of datagrams by which smaller messages and resends may exceed the limit for bulk.
	urgentLeeway = 4
	// mostUnrequested is the number of datagrams that may be overdue before the peer has requested one. If it has not by
	// then, it may be a peer that requests nothing.
	mostUnrequested = 128
)

// sender is the sending half of a connection. It numbers messages, splits and packs them into datagrams, and resends
// the reliable ones until they are acknowledged (docs/protocols/raknet/recovery.md#recovery-and-congestion).
type sender struct {
	*sending
	senderState
	orderedOnly bool // as in Options
	bits        bool // the peer counts the bits of a message; otherwise all messages are whole bytes
	flight      flight
	pacer       pacer `record:"inline"`
	openSplits  int
	toClient    bool // the peer is a client
	named       bool // the last ACK or NACK named a remembered datagram
	bytes       int  // bytes of the game's unsettled messages
	count       int  // number of those
	memory      *buffers
}

// senderState is the part of a sender that a record has as it is.
type senderState struct {
	MTU        int           `cbor:"1,keyasint,omitempty"`
	Congestion congestion    `cbor:"9,keyasint"`
	AckedAt    time.Duration `cbor:"14,keyasint,omitempty"` // when a datagram was last newly acknowledged
	// AckedSent is when the newest datagram was sent that the peer has acknowledged or asked for.
	AckedSent  time.Duration `cbor:"15,keyasint,omitempty"`
	RTT        rtt           `cbor:"16,keyasint,omitempty"`
	Channels   []sendChannel `cbor:"17,keyasint,omitempty"`
	ReliableAt time.Duration `cbor:"19,keyasint,omitempty"` // when reliable data was last sent
	Resent     uint64        `cbor:"20,keyasint,omitempty"` // as in codec.Stats, like Lost
	Lost       uint64        `cbor:"21,keyasint,omitempty"`
	Narrowed   int           `cbor:"24,keyasint,omitempty"` // MTU of a path that has shown itself narrower; 0: as MTU
	Narrowing  narrowing     `cbor:"25,keyasint,omitempty"`
	// BulkTurn says that bulk is first in the next datagram, if small and bulk messages wait.
	BulkTurn bool `cbor:"2,keyasint,omitempty"`
	Requests bool `cbor:"22,keyasint,omitempty"` // the peer has requested a datagram
	// Unasked counts overdue datagrams that were not requested, up to mostUnrequested.
	Unasked   uint8  `cbor:"23,keyasint,omitempty"`
	Forgetful bool   `cbor:"26,keyasint,omitempty"` // the peer knows no part by its number
	Few       bool   `cbor:"28,keyasint,omitempty"` // the peer may be RakLib, and gets at most fewOpenSplits
	SplitID   uint16 `cbor:"18,keyasint,omitempty"`
}

// sending is the part of a sender that is needed only while data waits or is in flight.
type sending struct {
	control queue // RakNet's own messages, sent before
	small   queue // the game's small ones, which share the path with
	bulk    queue // its large ones, and messages that must not overtake them

	doubts []doubt `cbor:"27,keyasint,omitempty"` // with openSplits at most maxOpenSplits

	openIDs [openSplitIDs / 64]uint64 // bit n: a split message is under way whose ID has the low byte n
}

// sendChannel is the sending side of an ordering channel.
type sendChannel struct {
	_        struct{} `cbor:",toarray"`
	Order    Seq24    // number of the next ordered message
	Sequence Seq24    // number of the next sequenced message
	small    int      // messages of the channel that wait in small; all are older than those in bulk
	bulk     int      // messages of the channel that wait in bulk
}

// setMTU sets the size of datagrams, before the first one.
func (s *sender) setMTU(mtu int) {
	s.MTU = mtu
	s.Congestion = newCongestion(s.datagramSize())
}

// Sizes at an MTU, as in stock RakNet (docs/protocols/raknet.md#sizes). They reserve 5 bytes more than the datagram
// header has, and the longest capsule header for every message.
func (s *sender) datagramSize() int { return datagramSizeAt(s.pathMTU()) }
func (s *sender) partSize() int     { return partSizeAt(s.pathMTU()) }

func datagramSizeAt(mtu int) int { return mtu - udpOverhead - 5 }
func partSizeAt(mtu int) int     { return mtu - udpOverhead - 9 - maxCapsuleHeaderSize }

func (s *sender) pathMTU() int {
	if s.Narrowed > 0 {
		return s.Narrowed
	}
	return s.MTU
}

// partsOf returns the number of parts of a message with size bytes. Before the MTU is known, it may be the least.
func (s *sender) partsOf(size int) int {
	part := partSizeAt(probes[len(probes)-1])
	if s.MTU > 0 {
		part = s.partSize()
	}
	return (size + part - 1) / part
}

// outgoing returns a record for a message with its own copy of the payload.
func (s *sender) outgoing(now time.Duration, m codec.Message) *outgoing {
	o := s.memory.record()
	*o = outgoing{
		Payload: s.memory.copy(m.Payload), Pad: s.padOf(m.Pad), Mode: m.Mode, Channel: m.Channel, Receipt: m.Receipt,
		QueuedAt: now,
	}
	return o
}

// padOf returns the unused bits that the peer is told. Most libraries count whole bytes: go-raknet rounds a length in
// bits down, takes the rest for another capsule, and blocks our address. Only C++ games send single bits.
func (s *sender) padOf(pad uint8) uint8 {
	if s.bits {
		return pad
	}
	return 0
}

// enqueue queues a message of the game.
func (s *sender) enqueue(now time.Duration, m codec.Message) {
	o := s.outgoing(now, m)
	o.InLine = hasChannel(m.Mode)
	q := &s.small
	if len(m.Payload) >= bulkSize || o.InLine && s.channel(m.Channel).bulk > 0 { // large, or behind a large one
		q = &s.bulk
	}
	s.wait(q, o)
	s.bytes += len(m.Payload)
	s.count++
}

// wait puts a message at the end of a queue.
func (s *sender) wait(q *queue, m *outgoing) {
	q.push(m)
	if m.InLine {
		*s.waiting(q, m.Channel)++
	}
}

// leave removes the oldest message, m, from its queue.
func (s *sender) leave(q *queue, m *outgoing) {
	q.pop()
	if m.InLine {
		m.InLine = false
		*s.waiting(q, m.Channel)--
	}
}

// waiting returns the count of a channel's messages in a queue.
func (s *sender) waiting(q *queue, channel uint8) *int {
	if q == &s.bulk {
		return &s.channel(channel).bulk
	}
	return &s.channel(channel).small
}

// isBehindSmall reports whether older messages of a bulk message's channel wait in small. It must not overtake them.
func (s *sender) isBehindSmall(m *outgoing) bool { return m.InLine && s.Channels[m.Channel].small > 0 }

// channel returns the state of an ordering channel, which is allocated at its first use.
func (s *sender) channel(number uint8) *sendChannel {
	for int(number) >= len(s.Channels) {
		s.Channels = append(s.Channels, sendChannel{})
	}
	return &s.Channels[number]
}

// enqueueControl queues one of RakNet's own messages.
func (s *sender) enqueueControl(now time.Duration, mode codec.Mode, payload []byte, pad uint8) {
	m := s.outgoing(now, codec.Message{Payload: payload, Pad: pad, Mode: mode})
	m.Control = true
	s.control.push(m)
}

// transmit appends one due datagram to b, if the path has room for it. Messages of the game wait unless open is true.
func (s *sender) transmit(now time.Duration, b []byte, open bool) ([]byte, bool) {
	open = open && !s.flight.isCrowded()
	if !s.hasWork(open) {
		s.Congestion.Limiting, s.pacer.WakeAt = false, 0
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
	if d := s.waitingDoubt(); d != nil {
		return s.complete(now, b, d), true
	}
	p := packer{s: s, now: now, start: len(b), datagram: s.flight.open(now), numbers: s.flight.numbersLeft()}
	p.b = appendDataHeader(b, s.flight.next, false, s.Congestion.inSlowStart())
	if s.Narrowing.Lost {
		p.packQueue(&s.control) // a ping beside no large message
	}
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

// spend takes a datagram's size from window and pace.
func (s *sender) spend(size int) {
	s.Congestion.sent(size)
	if s.RTT.Smoothed != 0 {
		s.pacer.sent(size)
	}
}

// mayTransmit reports whether window and pace have room, with the given leeway.
func (s *sender) mayTransmit(now time.Duration, leeway int) bool {
	if !s.Congestion.allows(leeway) {
		return false
	}
	if s.pacer.allows(now, s.Congestion.pace(s.RTT.Smoothed), s.datagramSize(), leeway) {
		return true
	}
	s.Congestion.Limiting = true
	return false
}

func (s *sender) hasWork(open bool) bool { return s.hasUrgentWork(open) || open && s.bulk.size > 0 }

func (s *sender) hasUrgentWork(open bool) bool {
	_, again := s.flight.nextResend()
	_, repeat := s.flight.nextRepeat()
	return again != nil || repeat || s.waitingDoubt() != nil || s.control.size > 0 || open && s.small.size > 0
}

// settled reports whether no message waits to be sent or acknowledged.
func (s *sender) settled() bool {
	return s.control.size == 0 && s.small.size == 0 && s.bulk.size == 0 && s.flight.unacked == 0
}

// start numbers a message at the transmission of its first part.
func (s *sender) start(m *outgoing) {
	if m.Parts = uint32(s.partsOf(len(m.Payload))); m.Parts > 1 {
		m.Mode = s.splitMode(m.Mode)
		if m.Channel >= maxChannels {
			m.Channel = 0 // the game's mode has no channels, and the parts' mode may
		}
		m.SplitID, _ = s.nextSplitID()
		s.openIDs[m.SplitID%openSplitIDs/64] |= 1 << (m.SplitID % 64)
		s.SplitID = m.SplitID + 1
		s.openSplits++
	}
	if !hasChannel(m.Mode) || m.Numbered {
		return
	}
	ch := s.channel(m.Channel)
	m.Order = ch.Order
	if isSequenced(m.Mode) {
		m.Sequence, ch.Sequence = ch.Sequence, ch.Sequence.Add(1)
	} else {
		ch.Order, ch.Sequence = ch.Order.Add(1), 0
	}
}

// splitMode returns the mode in which the parts of a split message travel. A message of many parts would hardly ever
// arrive unreliably.
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

// maySplit reports whether another split message may be under way.
func (s *sender) maySplit() bool {
	if s.toClient {
		_, ok := s.nextSplitID()
		return ok
	}
	if s.Few {
		return s.openSplits < fewOpenSplits
	}
	return s.openSplits+len(s.doubts) < maxOpenSplits
}

// finish removes a delivered or abandoned message from the counts.
func (s *sender) finish(m *outgoing) {
	if m.Parts > 1 {
		s.doubtOf(m)
		s.openSplits--
		s.openIDs[m.SplitID%openSplitIDs/64] &^= 1 << (m.SplitID % 64)
	}
	if !m.Control {
		s.bytes -= len(m.Payload)
		s.count--
	}
	s.memory.putRecord(m)
}

// abandon reports all unsettled messages as lost, and forgets them.
func (s *sender) abandon(e *events.Queue) {
	for i := range s.flight.parts {
		if m := s.flight.parts[i].message; m != nil {
			s.giveUp(m, e)
		}
	}
	s.abandonQueue(e)
	s.abandonAll(&s.control, e)
	s.flight.abandon()
	s.bytes, s.count, s.openIDs, s.doubts = 0, 0, [len(s.openIDs)]uint64{}, nil
}

// abandonQueue reports the game's messages that were not sent completely as lost, and forgets them.
func (s *sender) abandonQueue(e *events.Queue) {
	s.abandonAll(&s.small, e)
	s.abandonAll(&s.bulk, e)
}

func (s *sender) abandonAll(q *queue, e *events.Queue) {
	for m := q.peek(); m != nil; m = q.peek() {
		s.leave(q, m)
		s.giveUp(m, e)
	}
}

// giveUp reports a message as lost, and removes it from the counts. Several parts may belong to one message, and the
// last one is unknown. It is therefore reported once, and the garbage collector frees its memory.
func (s *sender) giveUp(m *outgoing, e *events.Queue) {
	if m.Receipt != 0 {
		e.Answer(m.Receipt, false)
		m.Receipt = 0
	}
	if m.Parts <= 1 {
		s.finish(m)
	}
}

// isIdle reports whether no message waits to be sent, acknowledged, or reported.
func (s *sender) isIdle() bool { return s.settled() && len(s.doubts) == 0 && s.flight.isIdle() }
