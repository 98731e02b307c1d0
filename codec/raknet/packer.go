package raknet

import "time"

// packer fills one datagram: first with resends, then with waiting messages, each queue in order.
type packer struct {
	s        *sender
	now      time.Duration
	b        []byte
	start    int // start of the datagram in b
	datagram *sentDatagram
	numbers  int // reliable numbers that may be assigned
}

func (p *packer) packResends() {
	f := &p.s.flight
	for ref, again := f.nextResend(); again != nil; ref, again = f.nextResend() {
		if !p.pack(again.message, again.index, again.reliable) {
			return
		}
		p.datagram.parts = append(p.datagram.parts, ref)
		f.resentOne(again)
		again.message.Again.add(again.index)
		p.s.Resent++
		p.s.ReliableAt = p.now
	}
}

// packMessages packs the game's messages. While both small and bulk messages wait, each kind is first in every other
// datagram, so that neither starves.
func (p *packer) packMessages(bulk bool) {
	s := p.s
	if !bulk {
		p.packQueue(&s.small)
		return
	}
	first, second := &s.small, &s.bulk
	if s.BulkTurn && s.bulk.size > 0 {
		first, second = second, first
	}
	s.BulkTurn = first == &s.small
	p.packQueue(first)
	p.packQueue(second)
}

func (p *packer) packQueue(q *queue) {
	for m := q.peek(); m != nil; m = q.peek() {
		if p.overdue(m) {
			p.s.leave(q, m)
			p.s.flight.done = append(p.s.flight.done, outcome{m, false})
			continue
		}
		if m.Parts == 0 {
			if p.isSplit(m) && !p.s.maySplit() || q == &p.s.bulk && p.s.isBehindSmall(m) {
				return
			}
			p.s.start(m)
		}
		if !p.packNext(m) {
			return
		}
		if m.Sent == m.Parts {
			p.s.leave(q, m)
		}
		if !m.Mode.IsReliable() && m.Receipt == 0 {
			p.s.finish(m)
		}
	}
}

// packNext packs the next part of a message in its first transmission.
func (p *packer) packNext(m *outgoing) bool {
	if m.Mode.IsReliable() {
		if p.numbers == 0 {
			return false
		}
		p.numbers--
	}
	if !p.pack(m, m.Sent, p.s.flight.Reliable) {
		return false
	}
	if m.Mode.IsReliable() || m.Receipt != 0 {
		p.datagram.parts = append(p.datagram.parts, p.s.flight.track(m, m.Sent))
	}
	if m.Mode.IsReliable() {
		p.s.ReliableAt = p.now
	}
	m.Sent++
	return true
}

// pack writes one part as a capsule, or reports that it does not fit. A datagram has room for the longest capsule, so
// the first always fits.
func (p *packer) pack(m *outgoing, index uint32, reliable Seq24) bool {
	c := capsule{
		mode: m.Mode, channel: m.Channel, reliable: reliable, sequence: m.Sequence, order: m.Order, payload: m.Payload,
	}
	if m.Parts > 1 {
		from := int(index) * p.s.partSize()
		c.payload = m.Payload[from:min(from+p.s.partSize(), len(m.Payload))]
		c.split, c.splitCount, c.splitID, c.splitIndex = true, m.Parts, m.SplitID, index
	}
	if index == m.Parts-1 {
		c.pad = m.Pad
	}
	if len(p.b)-p.start+c.size() > p.s.datagramSize() {
		return false
	}
	p.b = c.append(p.b)
	return true
}

// overdue reports whether an unreliable message waited too long to be useful. A message that must be split will travel
// reliably, and is therefore kept.
func (p *packer) overdue(m *outgoing) bool {
	return !m.Mode.IsReliable() && !p.isSplit(m) && p.now-m.QueuedAt > queueLife
}

func (p *packer) isSplit(m *outgoing) bool { return len(m.Payload) > p.s.partSize() }
