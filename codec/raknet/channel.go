package raknet

import (
	"time"

	"tidegate/codec"
)

// inbound is a message on its way from the peer's datagram to the application.
type inbound struct {
	payload         []byte
	owned           bool // payload is a recycled buffer, not part of the datagram
	pad             uint8
	mode            codec.Mode
	channel         uint8
	order, sequence Seq24
}

func isOrdered(m codec.Mode) bool { return m == codec.ReliableOrdered }

// channels puts the peer's ordered and sequenced messages into order, each channel separately
// (docs/protocols/raknet.md#ordering). Sequenced messages carry an ordering number without using it up. They wait for
// the ordered messages before them, and each ordered message restarts the sequencing numbers. The state of a channel
// is allocated at its first use.
type channels struct {
	list []channel
	now  time.Duration // the present
	// messages and bytes count the waiting messages of all channels.
	messages, bytes int
}

type channel struct {
	order    Seq24         // number of the next ordered message
	sequence Seq24         // lowest sequencing number that is not stale
	newest   Seq24         // the same after a jump that is not confirmed
	run      uint8         // messages of the jump, and behind it; 0: none
	runAt    time.Duration // when the latest of them came
	jumpEnd  time.Duration // until when older ones are stale
	late     uint8         // stale sequenced messages in a row
	stillAt  time.Duration // when the first message began to wait, or the channel last moved on
	waiting  waitingHeap   // messages ahead of order
}

// judge says whether a message is fresh (next), early (ahead of a missing one), or stale.
func (c *channels) judge(m *inbound) verdict {
	var ch channel
	if int(m.channel) < len(c.list) {
		ch = c.list[m.channel]
	}
	switch ahead := m.order.Sub(ch.order); {
	case ahead > 0:
		return early
	case isSequenced(m.mode):
		return ch.judgeSequenced(c.now, m.sequence, ahead < 0)
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
	least := ch.sequence
	if ch.run > 0 && now < ch.jumpEnd {
		least = ch.newest
	}
	ahead := number.Sub(least)
	if !overtaken && (ahead >= 0 || ahead < -mostLate || ch.continues(number)) || ch.late >= mostLateRun {
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
	next := m.sequence.Add(1)
	if ahead := m.sequence.Sub(ch.sequence); ahead >= 0 && ahead < sequenceStep {
		ch.sequence, ch.run = next, 0
		return
	}
	switch {
	case !ch.continues(m.sequence):
		ch.run, ch.jumpEnd = 1, now+jumpLife
		if m.mode.IsReliable() {
			ch.jumpEnd = now + reliableJumpLife
		}
	case now > ch.runAt:
		ch.run++
	}
	ch.newest, ch.runAt = next, now
	if ch.run == jumpRun {
		ch.sequence, ch.run = next, 0
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
		next = c.list[number].order
	}
	return order.Sub(next) >= maxOrderAhead
}

// overtake counts a sequenced message that was stale.
func (c *channels) overtake(m *inbound) {
	if ch := c.at(m.channel); !m.mode.IsReliable() && ch.late < mostLateRun {
		ch.late++
	}
}

// pass records the delivery of a fresh message.
func (c *channels) pass(m *inbound) {
	ch := c.at(m.channel)
	if isOrdered(m.mode) {
		ch.order, ch.sequence, ch.run = ch.order.Add(1), 0, 0
	} else {
		ch.passSequenced(c.now, m)
	}
	if m.order == ch.order {
		ch.late = 0
	}
}

// placeCost is the memory in bytes of a waiting message without its payload.
const placeCost = 64

// held returns the memory in bytes of the waiting messages.
func (c *channels) held() int { return c.bytes + c.messages*placeCost }

// hold keeps an early message, whose payload must be owned.
func (c *channels) hold(now time.Duration, m inbound) {
	ch := c.at(m.channel)
	if len(ch.waiting) == 0 {
		ch.stillAt = now
	}
	ch.waiting.push(m)
	c.messages++
	c.bytes += cap(m.payload)
}

// release removes the next held message of a channel that is no longer early. The message is fresh, and to be
// delivered, or stale.
func (c *channels) release(number uint8) (m inbound, v verdict, ok bool) {
	ch := c.at(number)
	if len(ch.waiting) == 0 {
		return inbound{}, stale, false
	}
	if v = c.judge(&ch.waiting[0]); v == early {
		return inbound{}, v, false
	}
	return c.take(ch), v, true
}

// take removes the first waiting message of a channel.
func (c *channels) take(ch *channel) inbound {
	m := ch.waiting.pop()
	c.messages--
	c.bytes -= cap(m.payload)
	if len(ch.waiting) == 0 && cap(ch.waiting) > keptPlaces {
		ch.waiting = nil // a peer might fill each channel once
	}
	return m
}

// clear gives up all waiting messages.
func (c *channels) clear() {
	for i := range c.list {
		c.list[i].waiting = nil
	}
	c.messages, c.bytes = 0, 0
}

// skip gives up the missing messages before the first waiting one of a channel that has stood still since the given
// time. If that one is as far ahead as only a forged one is, it leaves alone, and the channel stays where it is.
func (c *channels) skip(number uint8, since time.Duration) (alone inbound, isAlone, skipped bool) {
	ch := &c.list[number]
	switch {
	case len(ch.waiting) == 0 || ch.stillAt >= since:
		return inbound{}, false, false
	case ch.waiting[0].order.Sub(ch.order) >= maxReliableAhead:
		return c.take(ch), true, true
	}
	ch.order, ch.sequence, ch.run = ch.waiting[0].order, 0, 0
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
	if a.order != b.order {
		return a.order.Before(b.order)
	}
	if isOrdered(a.mode) || isOrdered(b.mode) {
		return isOrdered(b.mode) && !isOrdered(a.mode)
	}
	return a.sequence.Before(b.sequence)
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
