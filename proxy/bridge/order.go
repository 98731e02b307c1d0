package bridge

import (
	"tidegate/codec"
)

// order keeps the messages towards one side in order where its wire does not. The first such message makes it. It
// lives as long as its session.
type order struct {
	channels []orderChannel // by channel number, grown as channels are used
	bytes    int            // held in all channels
}

// orderChannel keeps the order of one channel.
type orderChannel struct {
	busy    bool   // holdOne: a message is under way
	sent    uint32 // holdWatch: messages sent
	highest uint32 // holdWatch: the newest message that is known to have arrived
	queue   []held // holdOne: waiting messages, the oldest at head
	head    int
}

// held is a message that waits. The next one reuses its payload buffer.
type held struct {
	message codec.Message
	buffer  []byte
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
// false if limit, in bytes, is reached.
func (o *order) keep(m *codec.Message, sequenced bool, limit int) bool {
	c := o.channel(m.Channel)
	slot := -1
	if n := len(c.queue); sequenced && n > c.head && isSequenced(c.queue[n-1].message.Mode) {
		slot = n - 1
		o.bytes -= len(c.queue[slot].message.Payload)
	}
	if o.bytes+len(m.Payload) > limit {
		return false
	}
	if slot < 0 {
		slot = c.grow()
	}
	h := &c.queue[slot]
	h.buffer = append(h.buffer[:0], m.Payload...)
	h.message = *m
	h.message.Payload = h.buffer
	o.bytes += len(m.Payload)
	return true
}

// grow makes room for one more message and returns its place.
func (c *orderChannel) grow() int {
	if c.head > 0 && len(c.queue) == cap(c.queue) {
		// Move the waiting messages to the front, and the buffers of sent messages behind them.
		old := len(c.queue)
		for i := c.head; i < old; i++ {
			c.queue[i-c.head], c.queue[i] = c.queue[i], c.queue[i-c.head]
		}
		c.queue, c.head = c.queue[:old-c.head], 0
	}
	if n := len(c.queue); n < cap(c.queue) {
		c.queue = c.queue[:n+1]
	} else {
		c.queue = append(c.queue, held{})
	}
	return len(c.queue) - 1
}

// next takes the oldest waiting message of a channel, or nil. The message is lent until the next keep.
func (o *order) next(channel uint8) *codec.Message {
	c := o.channel(channel)
	if c.head == len(c.queue) {
		return nil
	}
	h := &c.queue[c.head]
	c.head++
	o.bytes -= len(h.message.Payload)
	if c.head == len(c.queue) {
		c.queue, c.head = c.queue[:0], 0
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
