package raknet

import (
	"time"

	"tidegate/codec"
)

// narrowAfter is how often in turn large datagrams to a client must be lost and a smaller one, sent later, must arrive
// before the path counts as narrower than the handshake has shown. It tries the size towards the server only.
const narrowAfter = 4

// narrowFails is how many large datagrams with repeated parts must be lost in a row before turns count.
const narrowFails = 8

// narrowPing is the least time between pings that may be the smaller ones.
const narrowPing = 100 * time.Millisecond

// narrowing notices that large datagrams do not arrive while smaller ones do. The acknowledgement of a large one begins
// the count again. So requests of a forger cannot narrow a path.
type narrowing struct {
	Turns uint8 `cbor:"1,keyasint,omitempty"`
	Lost  bool  `cbor:"2,keyasint,omitempty"` // a large datagram was lost since the last turn
	// Fails counts large datagrams with repeated parts that were lost, up to narrowFails.
	Fails  uint8         `cbor:"5,keyasint,omitempty"`
	LostAt time.Duration `cbor:"3,keyasint,omitempty"` // when the newest of those was sent
	Until  time.Duration `cbor:"4,keyasint,omitempty"` // when the small datagram of the last turn was sent
}

// narrower returns the next smaller MTU that clients try, or 0.
func (s *sender) narrower() int {
	for _, mtu := range probes {
		if mtu < s.pathMTU() {
			return mtu
		}
	}
	return 0
}

// isLarge reports whether a datagram would not fit into the next smaller MTU.
func (s *sender) isLarge(d *sentDatagram) bool {
	mtu := s.narrower()
	return mtu > 0 && int(d.size) > datagramSizeAt(mtu)
}

// passed notes that a datagram arrived.
func (s *sender) passed(d *sentDatagram) {
	switch n := &s.Narrowing; {
	case *n == narrowing{}:
	case s.isLarge(d):
		*n = narrowing{}
	case n.Lost && d.at > n.LostAt:
		n.Turns, n.Lost, n.Until = n.Turns+1, false, d.at
	}
}

// failed notes that datagram n was lost.
func (s *sender) failed(number Seq24) {
	s.answerDoubt(number, false)
	d, n := s.flight.at(number), &s.Narrowing
	if !s.toClient || s.flight.Literal || d.at < n.Until || !s.isLarge(d) || !s.flight.resentLately(number) {
		return
	}
	if n.Fails = min(n.Fails+1, narrowFails); n.Fails == narrowFails {
		n.Lost, n.LostAt = true, max(n.LostAt, d.at)
	}
}

// narrow goes on with smaller datagrams if large ones do not arrive. Messages that need large ones begin again as other
// parts. Pings take the numbers of the old parts, because a peer waits for each number.
func (c *Conn) narrow(now time.Duration) {
	s, k := &c.sender, &c.keepalive
	if s.Narrowing.Lost && c.phase == connected && now >= k.PingedAt+max(narrowPing, 2*s.RTT.Smoothed) {
		k.ask(now, codec.Unreliable)
	}
	if s.Narrowing.Turns < narrowAfter {
		return
	}
	s.Narrowed, s.Narrowing = s.narrower(), narrowing{}
	s.Congestion.segment = s.datagramSize()
	for _, q := range [...]*queue{&s.small, &s.bulk} {
		if m := q.peek(); m != nil && m.Sent == 0 && m.Parts > 0 {
			s.beginAgain(m)
		}
	}
	ping := connectedPing{time: c.milliseconds(now)}
	var b [connectedPingSize]byte
	for i := range s.flight.parts {
		p := &s.flight.parts[i]
		m := p.message
		if m == nil || !m.Mode.IsReliable() || m.Parts == 1 && len(m.Payload) <= s.partSize() {
			continue
		}
		s.beginAgain(m)
		filler := s.outgoing(now, codec.Message{Payload: ping.append(b[:0]), Mode: codec.Reliable})
		filler.Control, filler.Parts, filler.Sent = true, 1, 1
		p.message, p.index = filler, 0
	}
}

// beginAgain lets a message wait again whose parts are in flight. It keeps its place in its channel. The ID of its old
// parts stays in use, because the peer may have kept some of them.
func (s *sender) beginAgain(m *outgoing) {
	if m.Parts == 0 {
		return // at another of its parts
	}
	if m.Parts > 1 {
		s.openSplits--
	}
	if m.Sent == m.Parts {
		s.bulk.push(m)
	}
	m.Parts, m.Sent, m.Settled, m.Numbered, m.Again = 0, 0, 0, true, partSet{}
}

// nextSplitID returns an ID for a split message to a client. No other one under way has the same low byte.
func (s *sender) nextSplitID() (id uint16, ok bool) {
	for i := range uint16(openSplitIDs) {
		id = s.SplitID + i
		if s.openIDs[id%openSplitIDs/64]&(1<<(id%64)) == 0 {
			return id, true
		}
	}
	return s.SplitID, false
}
