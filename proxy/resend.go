package proxy

import "tidegate/codec"

// resends keeps copies of the messages to one side that nobody but the Relay would send again.
type resends struct {
	kept  []keptMessage
	free  []int // unused places in kept
	bytes int
}

// keptMessage is a message whose fate is not known yet. Its buffer is used again.
type keptMessage struct {
	message codec.Message
	buffer  []byte
	care    care
	ordered bool // a newer message of its channel may have arrived before
	turn    bool // the channel waits for it (holdOne)
}

// resendBit tells receipts of kept messages from those of order.
const resendBit codec.Receipt = 1 << 31

// keep copies m and marks it. It reports false where limit, in bytes, is reached.
func (r *resends) keep(m *codec.Message, c care, ordered, turn bool, limit int) bool {
	size := 0
	if c == careResend {
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
	m.Receipt = resendBit | codec.Receipt(i+1)
	k := &r.kept[i]
	k.buffer = append(k.buffer[:0], m.Payload[:size]...)
	k.message, k.care, k.ordered, k.turn = *m, c, ordered, turn
	k.message.Payload = k.buffer
	r.bytes += size
	return true
}

// of returns the kept message of a receipt.
func (r *resends) of(receipt codec.Receipt) *keptMessage { return &r.kept[receipt&^resendBit-1] }

// forget lets go of a kept message.
func (r *resends) forget(receipt codec.Receipt) {
	r.bytes -= len(r.of(receipt).buffer)
	r.of(receipt).buffer = r.of(receipt).buffer[:0]
	r.free = append(r.free, int(receipt&^resendBit-1))
}
