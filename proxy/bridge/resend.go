package bridge

import (
	"cmp"
	"slices"
	"time"

	"tidegate/codec"
)

// resends keeps copies of messages to one side that only the Relay would send again.
type resends struct {
	kept  []keptMessage
	free  []int  // unused places in kept
	last  uint64 // number of the youngest message
	lost  int    // number of messages marked as lost
	bytes int
}

// keptMessage is a message whose fate is not known yet. The next one reuses its buffer.
type keptMessage struct {
	message codec.Message
	buffer  []byte
	care    care
	ordered bool          // a newer message of its channel may have arrived before
	inner   codec.Receipt // the message's receipt in order; 0 if it has none
	number  uint64        // counts up; 0 in an unused place
	lost    bool          // the server lost it, but may be lost itself: Resume or Purge decides
}

// resendBit distinguishes receipts of kept messages from receipts of order.
const resendBit codec.Receipt = 1 << 31

// keep copies m and marks it. It reports false if limit, in bytes, is reached.
func (r *resends) keep(m *codec.Message, c care, ordered bool, limit int) bool {
	size := 0
	if c != careReport {
		size = len(m.Payload)
	}
	if r.bytes+size > limit {
		return false
	}
	if len(r.free) == 0 {
		r.free = append(r.free, len(r.kept))
		r.kept = append(r.kept, keptMessage{})
	}
	i := r.free[len(r.free)-1]
	r.free = r.free[:len(r.free)-1]
	inner := m.Receipt
	m.Receipt = resendBit | codec.Receipt(i+1)
	r.last++
	k := &r.kept[i]
	k.buffer = append(k.buffer[:0], m.Payload[:size]...)
	k.message, k.care, k.ordered, k.inner, k.number, k.lost = *m, c, ordered, inner, r.last, false
	k.message.Payload = k.buffer
	r.bytes += size
	return true
}

// of returns the kept message of a receipt.
func (r *resends) of(receipt codec.Receipt) *keptMessage { return &r.kept[receipt&^resendBit-1] }

// has reports whether a receipt belongs to a kept message.
func (r *resends) has(receipt codec.Receipt) bool {
	i := int(receipt&^resendBit) - 1
	return i >= 0 && i < len(r.kept) && r.kept[i].number > 0
}

// forget releases a kept message.
func (r *resends) forget(receipt codec.Receipt) {
	k := r.of(receipt)
	r.bytes -= len(k.buffer)
	k.buffer, k.number = k.buffer[:0], 0
	if k.lost {
		k.lost = false
		r.lost--
	}
	r.free = append(r.free, int(receipt&^resendBit-1))
}

// lose marks a kept message as lost.
func (r *resends) lose(receipt codec.Receipt) {
	if k := r.of(receipt); !k.lost {
		k.lost = true
		r.lost++
	}
}

// inOrder lists the receipts of all kept messages, oldest first. It clears their marks of loss.
func (r *resends) inOrder() []codec.Receipt {
	all := r.receipts(func(*keptMessage) bool { return true })
	for _, receipt := range all {
		r.of(receipt).lost = false
	}
	r.lost = 0
	return all
}

// receipts lists the receipts of all kept messages for which chosen returns true, oldest first.
func (r *resends) receipts(chosen func(*keptMessage) bool) []codec.Receipt {
	all := make([]codec.Receipt, 0, len(r.kept)-len(r.free))
	for i := range r.kept {
		if k := &r.kept[i]; k.number > 0 && chosen(k) {
			all = append(all, k.message.Receipt)
		}
	}
	slices.SortFunc(all, func(a, b codec.Receipt) int { return cmp.Compare(r.of(a).number, r.of(b).number) })
	return all
}

// Purge gives up lost messages while their server is still there. Some wires give up a message after many attempts.
func (c *Carrier) Purge(now time.Time, s *Sender, d *Direction) {
	c.ended = false
	for _, receipt := range s.kept.receipts(func(k *keptMessage) bool { return k.lost }) {
		c.giveUp(now, s, d, receipt)
	}
}

// giveUp counts a kept message as lost, and sends what waits for it.
func (c *Carrier) giveUp(now time.Time, s *Sender, d *Direction, receipt codec.Receipt) {
	s.kept.of(receipt).care = careReport
	c.answered(now, s, d, &codec.Event{Kind: codec.Lost, Message: codec.Message{Receipt: receipt}})
}

// Leave forgets the connection of a Sender. It keeps the messages that wait for the next connection.
func (c *Carrier) Leave(s *Sender) {
	for _, receipt := range s.kept.receipts(func(k *keptMessage) bool { return k.care == careReport }) {
		c.counters.Lost++ // the report would come from the lost server
		s.kept.forget(receipt)
	}
	s.Conn, s.Down, s.Away = nil, false, true
}

// Resume sends all kept messages over a new connection, oldest first.
func (c *Carrier) Resume(now time.Time, s *Sender, d *Direction) {
	c.ended = false
	for _, receipt := range s.kept.inOrder() {
		k := s.kept.of(receipt)
		if err := s.Conn.Send(now, k.message); err != nil {
			if c.unsent(d, &k.message, codec.Reliable, err); c.ended {
				return
			}
			c.giveUp(now, s, d, receipt) // those behind it go on
		}
	}
}
