package raknet

import (
	"encoding/binary"
	"slices"

	"tidegate/codec"
)

// oracle is a second implementation of the reading side of RakNet's reliability layer, to check the real one. The two
// share no code. It keeps everything for ever, and has no limits and no wrap-around.
type oracle struct {
	messages []codec.Message // messages for the application
	closed   bool            // the peer said goodbye

	datagrams, reliable map[uint32]bool
	splits              map[uint16]map[uint32][]byte
	next, sequence      [32]uint32
	waiting             [32][]oracleCapsule
}

type oracleCapsule struct {
	codec.Message
	order, sequence uint32
}

func newOracle() *oracle {
	return &oracle{datagrams: map[uint32]bool{}, reliable: map[uint32]bool{}, splits: map[uint16]map[uint32][]byte{}}
}

// take reads one datagram of the peer.
func (o *oracle) take(b []byte) {
	if len(b) < 4 || b[0]&0xe0 != 0x80 {
		return // offline, ACK or NACK
	}
	number := le24(b[1:])
	if o.datagrams[number] {
		return
	}
	o.datagrams[number] = true
	for b = b[4:]; len(b) >= 4 && !o.closed; {
		b = o.takeCapsule(b)
	}
}

func (o *oracle) takeCapsule(b []byte) (rest []byte) {
	kind, split := b[0]>>5, b[0]&0x10 != 0
	bits := int(binary.BigEndian.Uint16(b[1:]))
	size := (bits + 7) / 8
	b = b[3:]
	m := oracleCapsule{Message: codec.Message{Pad: uint8(size*8 - bits), Mode: codec.Mode(kind)}}
	number, numbered := uint32(0), kind >= 2
	if numbered {
		number, b = le24(b), b[3:]
	}
	if kind == 1 || kind == 4 {
		m.sequence, b = le24(b), b[3:]
	}
	if kind == 1 || kind >= 3 {
		m.order, m.Channel, b = le24(b), b[3], b[4:]
	}
	var count, index uint32
	var id uint16
	if split {
		count, id, index = binary.BigEndian.Uint32(b), binary.BigEndian.Uint16(b[4:]), binary.BigEndian.Uint32(b[6:])
		b = b[10:]
	}
	m.Payload, rest = slices.Clone(b[:size]), b[size:]
	if numbered && o.reliable[number] {
		return rest
	}
	o.reliable[number] = numbered
	if !split || o.join(&m, count, id, index) {
		o.order(m)
	}
	return rest
}

// join reports whether this part completes its message, and then becomes that message.
func (o *oracle) join(m *oracleCapsule, count uint32, id uint16, index uint32) bool {
	parts := o.splits[id]
	if parts == nil {
		parts = map[uint32][]byte{}
		o.splits[id] = parts
	}
	parts[index] = m.Payload
	if uint32(len(parts)) < count {
		return false
	}
	m.Payload = nil
	for i := range count {
		m.Payload = append(m.Payload, parts[i]...)
	}
	delete(o.splits, id)
	return true
}

func (o *oracle) order(m oracleCapsule) {
	if m.Mode == codec.Unreliable || m.Mode == codec.Reliable {
		o.deliver(m)
		return
	}
	ch := m.Channel
	o.waiting[ch] = append(o.waiting[ch], m)
	for {
		i := slices.IndexFunc(o.waiting[ch], func(w oracleCapsule) bool { return w.order <= o.next[ch] })
		if i < 0 {
			return
		}
		// Of several, the sequenced ones come first: they were sent before the ordered one of the same index.
		for j, w := range o.waiting[ch] {
			best := o.waiting[ch][i]
			if w.order == best.order && w.Mode != codec.ReliableOrdered &&
				(best.Mode == codec.ReliableOrdered || w.sequence < best.sequence) {
				i = j
			}
		}
		m := o.waiting[ch][i]
		o.waiting[ch] = slices.Delete(o.waiting[ch], i, i+1)
		switch {
		case m.order < o.next[ch]: // overtaken by later ordered messages
		case m.Mode == codec.ReliableOrdered:
			o.next[ch]++
			o.sequence[ch] = 0
			o.deliver(m)
		case m.sequence >= o.sequence[ch]:
			o.sequence[ch] = m.sequence + 1
			o.deliver(m)
		}
	}
}

func (o *oracle) deliver(m oracleCapsule) {
	switch id := m.Payload[0]; {
	case o.closed:
	case id == idDisconnectionNotification:
		o.closed = true
	case id >= idFirstUser:
		o.messages = append(o.messages, m.Message)
	}
}

func le24(b []byte) uint32 { return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 }
