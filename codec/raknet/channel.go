package raknet

import (
	"slices"
	"time"

	"tidegate/codec"
)

// inbound is a message on its way from the peer's datagram to the application.
type inbound struct {
	Payload  []byte     `cbor:"1,keyasint"`
	Pad      uint8      `cbor:"2,keyasint,omitempty"`
	Mode     codec.Mode `cbor:"3,keyasint"`
	Channel  uint8      `cbor:"4,keyasint,omitempty"`
	Order    Seq24      `cbor:"5,keyasint,omitempty"`
	Sequence Seq24      `cbor:"6,keyasint,omitempty"`
	owned    bool       // Payload is a recycled buffer, not part of the datagram
}

func isOrdered(m codec.Mode) bool { return m == codec.ReliableOrdered }

// channels puts the peer's ordered and sequenced messages into order, each channel separately
// (docs/protocols/raknet.md#ordering). Sequenced messages carry an ordering number without using it up. They wait for
// the ordered messages before them, and each ordered message restarts the sequencing numbers. The state of a channel
// is allocated at its first use.
type channels struct {
	list []channel     `cbor:"11,keyasint,omitempty"`
	now  time.Duration // the present
	// messages and bytes count the waiting messages of all channels.
	messages, bytes int
}

type channel struct {
	Order    Seq24 `cbor:"1,keyasint,omitempty"` // number of the next ordered message
	Sequence Seq24 `cbor:"2,keyasint,omitempty"` // lowest sequencing number that is not stale
	Late     uint8 `cbor:"3,keyasint,omitempty"` // stale sequenced messages in a row
	// StillAt is when the first message began to wait, or the channel last moved on.
	StillAt time.Duration `cbor:"4,keyasint,omitempty"`
	Waiting waitingHeap   `cbor:"5,keyasint,omitempty"` // messages ahead of Order
	Passed  []uint32      `cbor:"6,keyasint,omitempty"` // prints of the latest large ordered messages, oldest first
	newest  Seq24         // as Sequence, after a jump that is not confirmed
	run     uint8         // messages of the jump, and behind it; 0: none
	runAt   time.Duration // when the latest of them came
	jumpEnd time.Duration // until when older ones are stale
}

// judge says whether a message is fresh (next), early (ahead of a missing one), or stale.
func (c *channels) judge(m *inbound) verdict {
	var ch channel
	if int(m.Channel) < len(c.list) {
		ch = c.list[m.Channel]
	}
	switch ahead := m.Order.Sub(ch.Order); {
	case ahead > 0:
		return early
	case isSequenced(m.Mode):
		return ch.judgeSequenced(c.now, m.Sequence, ahead < 0)
	case ahead < 0:
		return stale
	}
	return fresh
}

// A sequenced message whose number jumps by sequenceStep or more may be forged. It is the newest, so older ones are
// dropped, but after its life only if others have continued it. By then the path has brought what it had in
// another order, and a peer has sent again what it does.
const (
	sequenceStep     = 8
	jumpRun          = 3
	jumpLife         = 100 * time.Millisecond
	reliableJumpLife = 3 * time.Second
)

// Bounds of how late a sequenced message can be. One that is later, or that comes behind so many others, shows that a
// forged message was taken for the newest: the peer's own count again.
const (
	mostLate    = maxReliableAhead
	mostLateRun = 8 // of unreliable ones, which are sent once
)

// judgeSequenced says whether a sequenced message is fresh or stale. overtaken says that an ordered message behind it
// was passed on.
func (ch *channel) judgeSequenced(now time.Duration, number Seq24, overtaken bool) verdict {
	least := ch.Sequence
	if ch.run > 0 && now < ch.jumpEnd {
		least = ch.newest
	}
	ahead := number.Sub(least)
	if !overtaken && (ahead >= 0 || ahead < -mostLate || ch.continues(number)) || ch.Late >= mostLateRun {
		return fresh
	}
	return stale
}

// continues reports whether a number comes next after a jump.
func (ch *channel) continues(number Seq24) bool {
	more := number.Sub(ch.newest)
	return ch.run > 0 && more >= 0 && more < sequenceStep
}

// passSequenced records the delivery of a sequenced message. Messages of one moment do not confirm each other, since
// one datagram may have brought them.
func (ch *channel) passSequenced(now time.Duration, m *inbound) {
	next := m.Sequence.Add(1)
	if ahead := m.Sequence.Sub(ch.Sequence); ahead >= 0 && ahead < sequenceStep {
		ch.Sequence, ch.run = next, 0
		return
	}
	switch {
	case !ch.continues(m.Sequence):
		ch.run, ch.jumpEnd = 1, now+jumpLife
		if m.Mode.IsReliable() {
			ch.jumpEnd = now + reliableJumpLife
		}
	case now > ch.runAt:
		ch.run++
	}
	ch.newest, ch.runAt = next, now
	if ch.run == jumpRun {
		ch.Sequence, ch.run = next, 0
	}
}

// maxOrderAhead is how far ahead of its turn a message may be. Stock RakNet numbers ordered messages when the game
// sends them, and sends by priority. So a message can overtake all that wait. Only the due reliable message, without
// which the peer cannot go on, may be further ahead.
const maxOrderAhead = 1 << 16

// isFar reports whether an ordering number is further ahead than maxOrderAhead.
func (c *channels) isFar(number uint8, order Seq24) bool {
	next := Seq24(0)
	if int(number) < len(c.list) {
		next = c.list[number].Order
	}
	return order.Sub(next) >= maxOrderAhead
}

// overtake counts a sequenced message that was stale.
func (c *channels) overtake(m *inbound) {
	if ch := c.at(m.Channel); !m.Mode.IsReliable() && ch.Late < mostLateRun {
		ch.Late++
	}
}

// pass records the delivery of a fresh message.
func (c *channels) pass(m *inbound) {
	ch := c.at(m.Channel)
	if isOrdered(m.Mode) {
		ch.Order, ch.Sequence, ch.run = ch.Order.Add(1), 0, 0
	} else {
		ch.passSequenced(c.now, m)
	}
	if m.Order == ch.Order {
		ch.Late = 0
	}
}

// mostPassed is the number of large ordered messages that a channel remembers.
const mostPassed = 32

// remember keeps the print of a message that was passed on.
func (ch *channel) remember(print uint32) {
	if len(ch.Passed) == mostPassed {
		ch.Passed = slices.Delete(ch.Passed, 0, 1)
	}
	ch.Passed = append(ch.Passed, print)
}

// placeCost is the memory in bytes of a waiting message without its payload.
const placeCost = 64

// held returns the memory in bytes of the waiting messages.
func (c *channels) held() int { return c.bytes + c.messages*placeCost }

// hold keeps an early message, whose payload must be owned.
func (c *channels) hold(now time.Duration, m inbound) {
	ch := c.at(m.Channel)
	if len(ch.Waiting) == 0 {
		ch.StillAt = now
	}
	ch.Waiting.push(m)
	c.messages++
	c.bytes += cap(m.Payload)
}

// release removes the next held message of a channel that is no longer early. The message is fresh, and to be
// delivered, or stale.
func (c *channels) release(number uint8) (m inbound, v verdict, ok bool) {
	ch := c.at(number)
	if len(ch.Waiting) == 0 {
		return inbound{}, stale, false
	}
	if v = c.judge(&ch.Waiting[0]); v == early {
		return inbound{}, v, false
	}
	return c.take(ch), v, true
}

// take removes the first waiting message of a channel.
func (c *channels) take(ch *channel) inbound {
	m := ch.Waiting.pop()
	c.messages--
	c.bytes -= cap(m.Payload)
	if len(ch.Waiting) == 0 && cap(ch.Waiting) > keptPlaces {
		ch.Waiting = nil // a peer might fill each channel once
	}
	return m
}

// clear gives up all waiting messages.
func (c *channels) clear() {
	for i := range c.list {
		c.list[i].Waiting = nil
	}
	c.messages, c.bytes = 0, 0
}

// skip gives up the missing messages before the first waiting one of a channel that has stood still since the given
// time. If that one is as far ahead as only a forged one is, it leaves alone, and the channel stays where it is.
func (c *channels) skip(number uint8, since time.Duration) (alone inbound, isAlone, skipped bool) {
	ch := &c.list[number]
	switch {
	case len(ch.Waiting) == 0 || ch.StillAt >= since:
		return inbound{}, false, false
	case ch.Waiting[0].Order.Sub(ch.Order) >= maxReliableAhead:
		return c.take(ch), true, true
	}
	ch.Order, ch.Sequence, ch.run = ch.Waiting[0].Order, 0, 0
	return inbound{}, false, true
}

func (c *channels) at(number uint8) *channel {
	for int(number) >= len(c.list) {
		c.list = append(c.list, channel{})
	}
	return &c.list[number]
}

// waitingHeap is a binary heap of early messages, by ordering number. With the same number, sequenced messages precede
// the ordered one, by sequencing number.
type waitingHeap []inbound

func (h waitingHeap) less(i, j int) bool {
	a, b := &h[i], &h[j]
	if a.Order != b.Order {
		return a.Order.Before(b.Order)
	}
	if isOrdered(a.Mode) || isOrdered(b.Mode) {
		return isOrdered(b.Mode) && !isOrdered(a.Mode)
	}
	return a.Sequence.Before(b.Sequence)
}

func (h *waitingHeap) push(m inbound) {
	*h = append(*h, m)
	s := *h
	for i := len(s) - 1; i > 0; {
		parent := (i - 1) / 2
		if !s.less(i, parent) {
			return
		}
		s[i], s[parent] = s[parent], s[i]
		i = parent
	}
}

func (h *waitingHeap) pop() inbound {
	s := *h
	top, last := s[0], len(s)-1
	s[0], s[last] = s[last], inbound{}
	s = s[:last]
	*h = s
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if s.less(child, least) {
				least = child
			}
		}
		if least == i {
			return top
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}
