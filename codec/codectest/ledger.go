package codectest

import (
	"bytes"

	"tidegate/codec"
)

// ledger records every message accepted in one direction, and its fate.
type ledger struct {
	c         *Config
	r         *report
	name      string
	direction uint32
	fixed     []byte // the only possible payload in this direction; nil: test payloads
	records   []record
	ordered   [256][]uint32              // indexes of ReliableOrdered messages on each channel, as sent
	inOrder   [256]int                   // how many of them have arrived
	newest    [codec.Notify + 1][256]int // newest arrival of each mode and channel, as index plus 1
	lastSent  [256]int                   // last message on each channel, in a mode that has channels, as index plus 1
	tip       [256]int                   // newest such message to arrive on each channel, as index plus 1
	lenient   bool                       // forged datagrams may have changed anything; only receipts count
	strange   bool                       // replayed and forged datagrams may add messages
	unsettled int                        // all messages before this index are settled
	scratch   []byte
}

// record is one accepted message.
type record struct {
	mode      codec.Mode
	channel   uint8
	id        uint16
	size      int
	pad       uint8
	receipt   bool
	arrivals  int
	answers   int
	delivered bool
}

// compose returns the next message of the direction. Its payload belongs to the ledger until the next call.
func (l *ledger) compose(mode codec.Mode, channel uint8, size int, pad uint8, receipt bool) codec.Message {
	index := uint32(len(l.records))
	l.scratch = l.appendPayload(l.scratch[:0], index, size, pad)
	m := codec.Message{Payload: l.scratch, Pad: pad, Mode: mode, Channel: channel}
	if l.c.IDs.Has(mode) {
		m.HasID, m.ID = true, uint16(index*2039)
	}
	if receipt {
		m.Receipt = codec.Receipt(index + 1)
	}
	return m
}

// accepted records that Send took the last message from compose. It spoils the payload, which was only lent.
func (l *ledger) accepted(m codec.Message) {
	index := len(l.records)
	l.records = append(l.records, record{
		mode: m.Mode, channel: m.Channel, id: m.ID, size: len(m.Payload), pad: m.Pad, receipt: m.Receipt != 0,
	})
	if hasChannel(m.Mode) {
		l.lastSent[m.Channel] = index + 1
	}
	if m.Mode == codec.ReliableOrdered {
		l.ordered[m.Channel] = append(l.ordered[m.Channel], uint32(index))
	}
	for i := range m.Payload {
		m.Payload[i] = 0xee
	}
}

// arrived checks a Received event, which may hold several joined messages.
func (l *ledger) arrived(m codec.Message) {
	switch {
	case l.c.greets(m.Payload):
		return
	case l.fixed != nil:
		l.countFixed(m)
		return
	}
	rest := m.Payload
	for {
		index, size, ok := l.c.parsePayload(rest, l.direction)
		if !ok || uint64(index) >= uint64(len(l.records)) || size > len(rest) || (size < len(rest) && !l.c.Joins) {
			l.mismatch("%v message of %d bytes received, but never sent: %.40x", m.Mode, len(m.Payload), m.Payload)
			return
		}
		m.Payload, rest = rest[:size], rest[size:]
		if l.isSame(m, index) {
			l.count(index)
		}
		if len(rest) == 0 {
			return
		}
	}
}

// isSame checks that a message arrived unchanged.
func (l *ledger) isSame(m codec.Message, index uint32) bool {
	rec := &l.records[index]
	l.scratch = l.appendPayload(l.scratch[:0], index, rec.size, rec.pad)
	switch {
	case !bytes.Equal(m.Payload, l.scratch) || m.Pad != rec.pad:
		l.mismatch("message %d arrived with other bytes, or pad %d instead of %d", index, m.Pad, rec.pad)
	case m.HasID != l.c.IDs.Has(rec.mode) || m.ID != rec.id:
		l.mismatch("message %d arrived with ID %d (%v), sent with %d", index, m.ID, m.HasID, rec.id)
	case m.Channel != rec.channel:
		l.mismatch("message %d arrived on channel %d, sent on %d", index, m.Channel, rec.channel)
	case !l.c.ModesBlur && m.Mode != rec.mode && !l.c.isStrengthened(rec.mode, m.Mode):
		l.mismatch("message %d arrived as %v, sent as %v", index, m.Mode, rec.mode)
	default:
		return true
	}
	return false
}

// mismatch reports a message that the peer never sent, unless a forger may have sent it.
func (l *ledger) mismatch(format string, args ...any) {
	if !l.strange {
		l.fault(format, args...)
	}
}

// isStrengthened reports whether a codec may send a message in another mode because of its size, or for lack of
// numbers.
func (c *Config) isStrengthened(sent, received codec.Mode) bool {
	switch {
	case c.Hardens && !sent.IsReliable() && received == codec.ReliableOrdered:
		return true
	case sent == codec.Unreliable:
		return received == codec.Reliable || received == codec.UnreliableSequenced
	case sent == codec.UnreliableSequenced:
		return received == codec.ReliableSequenced
	}
	return false
}

// count checks that a message arrives as often and in the order that its mode promises.
func (l *ledger) count(index uint32) {
	rec := &l.records[index]
	rec.arrivals++
	if mayRepeat := rec.mode == codec.Unreliable && (l.c.Repeats || l.strange); rec.arrivals > 1 && !mayRepeat {
		l.fault("%v message %d arrived %d times", rec.mode, index, rec.arrivals)
	}
	newest := &l.newest[rec.mode][rec.channel]
	switch rec.mode {
	case codec.ReliableOrdered:
		expected := l.ordered[rec.channel][min(l.inOrder[rec.channel], len(l.ordered[rec.channel])-1)]
		if index != expected {
			l.fault("%v message %d arrived out of order on channel %d, want %d", rec.mode, index, rec.channel, expected)
		}
		l.inOrder[rec.channel]++
	case codec.UnreliableSequenced, codec.ReliableSequenced, codec.Notify:
		if int(index) < *newest {
			l.fault("%v message %d arrived on channel %d after %d", rec.mode, index, rec.channel, *newest-1)
		}
	}
	*newest = max(*newest, int(index)+1)
	if hasChannel(rec.mode) {
		l.tip[rec.channel] = max(l.tip[rec.channel], int(index)+1)
	}
}

// answered checks a Delivered or Lost event.
func (l *ledger) answered(receipt codec.Receipt, delivered bool) {
	index := int(receipt) - 1
	if index < 0 || index >= len(l.records) || !l.records[index].receipt {
		l.r.Errorf("%s: receipt %d answered without a request", l.name, receipt)
		return
	}
	rec := &l.records[index]
	if rec.answers++; rec.answers > 1 {
		l.r.Errorf("%s: receipt of %v message %d answered %d times", l.name, rec.mode, index, rec.answers)
	}
	rec.delivered = delivered
}

// fault reports a fault that no honest network causes. A lenient simulation, with forged datagrams, ignores it.
func (l *ledger) fault(format string, args ...any) {
	if !l.lenient {
		l.r.Errorf(l.name+": "+format, args...)
	}
}
