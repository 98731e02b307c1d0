package bridge

import (
	"bytes"
	"fmt"

	"tidegate/codec"
)

const (
	maxSavedKept   = 1 << 16 // kept messages of a record: more than any queue holds
	maxSavedQueued = 1 << 16 // messages of a record that wait for their turn in one channel
)

// Saved is a Sender as plain data, without its connection. A record of a session has one for each side. Joined messages
// are not part of it: they leave at the end of each turn.
type Saved struct {
	Down     bool           `cbor:"1,keyasint,omitempty"`
	Keeps    bool           `cbor:"2,keyasint,omitempty"`
	Away     bool           `cbor:"3,keyasint,omitempty"`
	Channels []savedChannel `cbor:"4,keyasint,omitempty"` // by channel number
	Kept     []savedKept    `cbor:"5,keyasint,omitempty"` // by place
	Free     []int          `cbor:"6,keyasint,omitempty"` // unused places; the last one is used next
	Last     uint64         `cbor:"7,keyasint,omitempty"` // number of the youngest kept message
}

// savedChannel is an orderChannel.
type savedChannel struct {
	Busy    bool           `cbor:"1,keyasint,omitempty"`
	Sent    uint32         `cbor:"2,keyasint,omitempty"`
	Highest uint32         `cbor:"3,keyasint,omitempty"`
	Queue   []savedMessage `cbor:"4,keyasint,omitempty"`
}

// savedKept is a keptMessage.
type savedKept struct {
	Message savedMessage  `cbor:"1,keyasint"`
	Care    care          `cbor:"2,keyasint,omitempty"`
	Ordered bool          `cbor:"3,keyasint,omitempty"`
	Inner   codec.Receipt `cbor:"4,keyasint,omitempty"`
	Number  uint64        `cbor:"5,keyasint,omitempty"`
	Lost    bool          `cbor:"6,keyasint,omitempty"`
}

type savedMessage struct {
	Mode    codec.Mode    `cbor:"1,keyasint,omitempty"`
	Channel uint8         `cbor:"2,keyasint,omitempty"`
	ID      uint16        `cbor:"3,keyasint,omitempty"`
	HasID   bool          `cbor:"4,keyasint,omitempty"`
	Payload []byte        `cbor:"5,keyasint,omitempty"`
	Pad     uint8         `cbor:"6,keyasint,omitempty"`
	Receipt codec.Receipt `cbor:"7,keyasint,omitempty"`
}

func saveMessage(m *codec.Message) savedMessage {
	return savedMessage{m.Mode, m.Channel, m.ID, m.HasID, m.Payload, m.Pad, m.Receipt}
}

// Save returns the Sender as plain data, which shares its memory. Its joined messages have been sent before.
func (s *Sender) Save() Saved {
	v := Saved{Down: s.Down, Keeps: s.Keeps, Away: s.Away, Free: s.kept.free, Last: s.kept.last}
	for i := range s.order.channels {
		c := &s.order.channels[i]
		one := savedChannel{Busy: c.busy, Sent: c.sent, Highest: c.highest}
		for j := c.head; j < len(c.queue); j++ {
			one.Queue = append(one.Queue, saveMessage(&c.queue[j].message))
		}
		v.Channels = append(v.Channels, one)
	}
	for i := range s.kept.kept {
		k := &s.kept.kept[i]
		if k.number == 0 {
			v.Kept = append(v.Kept, savedKept{})
			continue
		}
		v.Kept = append(v.Kept, savedKept{saveMessage(&k.message), k.care, k.ordered, k.inner, k.number, k.lost})
	}
	return v
}

// Restore makes the Sender again that Save has read, without its connection. A record is hostile input: the error wraps
// codec.ErrSaved.
func (v *Saved) Restore() (Sender, error) {
	s := Sender{Down: v.Down, Keeps: v.Keeps, Away: v.Away}
	if err := v.restoreOrder(&s.order); err != nil {
		return Sender{}, err
	}
	if err := v.restoreKept(&s.kept); err != nil {
		return Sender{}, err
	}
	return s, nil
}

func (v *Saved) restoreOrder(o *order) error {
	if len(v.Channels) > 1<<8 {
		return fault("number of channels", len(v.Channels))
	}
	for _, one := range v.Channels {
		c := orderChannel{busy: one.Busy, sent: one.Sent, highest: one.Highest}
		if len(one.Queue) > maxSavedQueued || len(one.Queue) > 0 && !one.Busy {
			return fault("number of waiting messages", len(one.Queue))
		}
		for i := range one.Queue {
			m, err := one.Queue[i].restore()
			if err != nil {
				return err
			}
			c.queue = append(c.queue, held{m, m.Payload})
			o.bytes += len(m.Payload)
		}
		o.channels = append(o.channels, c)
	}
	return nil
}

func (v *Saved) restoreKept(r *resends) error {
	if len(v.Kept) > maxSavedKept {
		return fault("number of kept messages", len(v.Kept))
	}
	unused := 0
	r.last = v.Last
	for i := range v.Kept {
		one := &v.Kept[i]
		if one.Number == 0 {
			r.kept = append(r.kept, keptMessage{})
			unused++
			continue
		}
		m, err := one.Message.restore()
		switch {
		case err != nil:
			return err
		case one.Care > careHold || one.Number > v.Last || m.Receipt != resendBit|codec.Receipt(i+1):
			return fault("kept message", one.Number)
		}
		r.kept = append(r.kept, keptMessage{m, m.Payload, one.Care, one.Ordered, one.Inner, one.Number, one.Lost})
		r.bytes += len(m.Payload)
		if one.Lost {
			r.lost++
		}
	}
	if len(v.Free) != unused {
		return fault("number of unused places", len(v.Free))
	}
	seen := make(map[int]bool, len(v.Free))
	for _, i := range v.Free {
		if i < 0 || i >= len(r.kept) || r.kept[i].number != 0 || seen[i] {
			return fault("unused place", i)
		}
		seen[i] = true
	}
	r.free = v.Free
	return nil
}

func (v *savedMessage) restore() (codec.Message, error) {
	if int(v.Mode) >= codec.ModeCount {
		return codec.Message{}, fault("mode", v.Mode)
	}
	return codec.Message{
		Mode: v.Mode, Channel: v.Channel, ID: v.ID, HasID: v.HasID, Payload: bytes.Clone(v.Payload), Pad: v.Pad,
		Receipt: v.Receipt,
	}, nil
}

func fault(what string, value any) error {
	return fmt.Errorf("%w: bridge: %s is %v", codec.ErrSaved, what, value)
}
