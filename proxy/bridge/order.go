package bridge

import (
	"cmp"
	"slices"
	"time"

	"tidegate/codec"
)

// order keeps the messages towards one side in order where its wire does not. The first such message makes it. It
// lives as long as its session.
type order struct {
	channels []orderChannel // by channel number, grown as channels are used
	load                    // of all channels
}

// orderChannel keeps the order of one channel.
type orderChannel struct {
	busy    bool   `cbor:"1,keyasint,omitempty"` // holdOne: a message is under way
	sent    uint32 `cbor:"2,keyasint,omitempty"` // holdWatch: messages sent
	highest uint32 `cbor:"3,keyasint,omitempty"` // holdWatch: the newest message that is known to have arrived
	queue   []held // holdOne: a ring of waiting messages, the oldest at head
	head    int
	count   int
}

// held is a message that waits. The next one in its place reuses its payload buffer.
type held struct {
	message codec.Message
	buffer  []byte
}

// A message costs queueOverhead bytes in addition to its payload. At most maxQueued messages wait for one side, so that
// a record has room for them, and a turn has time.
const (
	queueOverhead = 64
	maxQueued     = 1 << 16
	manyPlaces    = 256 // more of them are freed once no message needs one
)

// load is the memory of messages that a Sender stores.
type load struct{ bytes, count int } // bytes of the payloads alone

func (l *load) add(n int)    { l.bytes, l.count = l.bytes+n, l.count+1 }
func (l *load) remove(n int) { l.bytes, l.count = l.bytes-n, l.count-1 }

// size returns the bytes that the messages cost.
func (l *load) size() int { return l.bytes + queueOverhead*l.count }

// fits reports whether another message of n bytes stays within limit, in bytes, and within maxQueued.
func (l *load) fits(n, limit int) bool {
	return l.count < maxQueued && l.size()+queueOverhead+n <= limit
}

// fill returns the used part of a queue of limit bytes.
func (l *load) fill(limit float64) float64 {
	return max(float64(l.size())/limit, float64(l.count)/maxQueued)
}

// A receipt has the channel plus one in its low bits, and the message's number in the high bits.
const (
	receiptBits = 9
	numberBits  = 32 - receiptBits // numbers wrap at 2^numberBits
)

func receiptOf(channel uint8, n uint32) codec.Receipt {
	return codec.Receipt(n<<receiptBits | uint32(channel) + 1)
}

func (o *order) channel(c uint8) *orderChannel {
	for len(o.channels) <= int(c) {
		o.channels = append(o.channels, orderChannel{})
	}
	return &o.channels[c]
}

// watch gives m a receipt by which answered detects overtaking.
func (o *order) watch(m *codec.Message) {
	c := o.channel(m.Channel)
	if c.sent++; c.sent&(1<<numberBits-1) == 0 {
		c.sent++ // number 0 belongs to begin
	}
	m.Receipt = receiptOf(m.Channel, c.sent)
}

// begin reports whether m may be sent now, as the only message of its channel under way. It then marks the channel as
// busy.
func (o *order) begin(m *codec.Message) bool {
	c := o.channel(m.Channel)
	if c.busy {
		return false
	}
	c.busy = true
	m.Receipt = receiptOf(m.Channel, 0)
	return true
}

// busy reports whether a message of the channel is under way.
func (o *order) busy(channel uint8) bool { return o.channel(channel).busy }

// cancel undoes begin: the message was not sent.
func (o *order) cancel(channel uint8) { o.channel(channel).busy = false }

// keep holds m back until its turn. A sequenced message replaces an older one, which is stale by then. keep reports
// false if no more may wait. limit is in bytes.
func (o *order) keep(m *codec.Message, sequenced bool, limit int) bool {
	c, before := o.channel(m.Channel), o.load
	replaces := sequenced && c.count > 0 && isSequenced(c.at(c.count-1).message.Mode)
	if replaces {
		o.remove(len(c.at(c.count - 1).message.Payload))
	}
	if !o.fits(len(m.Payload), limit) {
		o.load = before
		return false
	}
	if !replaces {
		c.grow()
	}
	h := c.at(c.count - 1)
	h.buffer = append(h.buffer[:0], m.Payload...)
	h.message = *m
	h.message.Payload = h.buffer
	o.add(len(m.Payload))
	return true
}

// at returns the place of the waiting message i. The oldest one is 0.
func (c *orderChannel) at(i int) *held { return &c.queue[(c.head+i)%len(c.queue)] }

// grow makes room for one more message.
func (c *orderChannel) grow() {
	if c.count == len(c.queue) {
		longer := make([]held, max(4, 2*c.count))
		n := copy(longer, c.queue[c.head:])
		copy(longer[n:], c.queue[:c.head])
		c.queue, c.head = longer, 0
	}
	c.count++
}

// next takes the oldest waiting message of a channel, or nil. The message is lent until the next keep.
func (o *order) next(channel uint8) *codec.Message {
	c := o.channel(channel)
	if c.count == 0 {
		return nil
	}
	h := c.at(0)
	c.head, c.count = (c.head+1)%len(c.queue), c.count-1
	o.remove(len(h.message.Payload))
	if c.count == 0 {
		c.head = 0 // the next message reuses the same buffer as the last one
		if len(c.queue) > manyPlaces {
			c.queue = nil
		}
	}
	return &h.message
}

// answered records the fate of a receipt. overtaken is true if a newer message of the channel had arrived before.
// free is true if the channel may send its next message.
func (o *order) answered(r codec.Receipt) (channel uint8, overtaken, free bool) {
	channel = uint8(r&(1<<receiptBits-1) - 1)
	c := o.channel(channel)
	n := uint32(r) >> receiptBits
	if n == 0 {
		c.busy = false
		return channel, false, true
	}
	if int32((n-c.highest)<<receiptBits) < 0 {
		return channel, true, false
	}
	c.highest = n
	return channel, false, false
}

func isSequenced(m codec.Mode) bool {
	return m == codec.UnreliableSequenced || m == codec.ReliableSequenced
}

// resends keeps copies of messages to one side that only the Relay would send again.
type resends struct {
	kept []keptMessage
	free []int  // unused places in kept
	last uint64 // number of the youngest message
	lost int    // number of messages marked as lost
	load
}

// keptMessage is a message whose fate is not known yet. The next one reuses its buffer.
type keptMessage struct {
	message codec.Message `cbor:"1,keyasint"`
	buffer  []byte
	care    care          `cbor:"2,keyasint,omitempty"`
	ordered bool          `cbor:"3,keyasint,omitempty"` // a newer message of its channel may have arrived before
	inner   codec.Receipt `cbor:"4,keyasint,omitempty"` // the message's receipt in order; 0 if it has none
	number  uint64        `cbor:"5,keyasint,omitempty"` // counts up; 0 in an unused place
	lost    bool          `cbor:"6,keyasint,omitempty"` // the server lost it, and Resume or Purge decides
}

// resendBit distinguishes receipts of kept messages from receipts of order.
const resendBit codec.Receipt = 1 << 31

// keep copies m and marks it. It reports false if no more may be kept. limit is in bytes.
func (r *resends) keep(m *codec.Message, c care, ordered bool, limit int) bool {
	size := 0
	if c != careReport {
		size = len(m.Payload)
	}
	if !r.fits(size, limit) {
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
	r.add(size)
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
	r.remove(len(k.buffer))
	k.buffer, k.number = k.buffer[:0], 0
	if k.lost {
		k.lost = false
		r.lost--
	}
	r.free = append(r.free, int(receipt&^resendBit-1))
	if r.count == 0 && len(r.kept) > manyPlaces {
		*r = resends{last: r.last}
	}
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
	all := make([]codec.Receipt, 0, r.count)
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
