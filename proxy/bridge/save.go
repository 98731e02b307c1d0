package bridge

import (
	"fmt"

	"tidegate/codec"
)

// Saved is a Sender as plain data, without its connection. A record of a session has one for each side. Joined messages
// are not part of it: they leave at the end of each turn.
type Saved struct {
	Down     bool           `cbor:"1,keyasint,omitempty"`
	Keeps    bool           `cbor:"2,keyasint,omitempty"`
	Away     bool           `cbor:"3,keyasint,omitempty"`
	Channels []savedChannel `cbor:"4,keyasint,omitempty"` // by channel number
	Kept     []keptMessage  `cbor:"5,keyasint,omitempty"` // by place
	Free     []int          `cbor:"6,keyasint,omitempty"` // unused places; the last one is used next
	Last     uint64         `cbor:"7,keyasint,omitempty"` // number of the youngest kept message
}

// savedChannel is an orderChannel, with the messages that wait.
type savedChannel struct {
	orderChannel
	Queue []codec.Message `cbor:"4,keyasint,omitempty"`
}

// Save returns the Sender as plain data, which shares its memory. Its joined messages have been sent before.
func (s *Sender) Save() Saved {
	v := Saved{Down: s.Down, Keeps: s.Keeps, Away: s.Away, Free: s.kept.free, Last: s.kept.last}
	for i := range s.order.channels {
		c := &s.order.channels[i]
		one := savedChannel{orderChannel: *c}
		for j := range c.count {
			one.Queue = append(one.Queue, c.at(j).message)
		}
		v.Channels = append(v.Channels, one)
	}
	for _, k := range s.kept.kept {
		if k.number == 0 {
			k = keptMessage{}
		}
		v.Kept = append(v.Kept, k)
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
		c := one.orderChannel
		if len(one.Queue) > maxQueued || len(one.Queue) > 0 && !c.busy {
			return fault("number of waiting messages", len(one.Queue))
		}
		for _, m := range one.Queue {
			if int(m.Mode) >= codec.ModeCount {
				return fault("mode", m.Mode)
			}
			c.queue = append(c.queue, held{m, m.Payload})
			o.add(len(m.Payload))
		}
		c.count = len(c.queue)
		o.channels = append(o.channels, c)
	}
	return nil
}

func (v *Saved) restoreKept(r *resends) error {
	if len(v.Kept) > maxQueued {
		return fault("number of kept messages", len(v.Kept))
	}
	unused := 0
	r.last = v.Last
	for i := range v.Kept {
		k := &v.Kept[i]
		switch m := &k.message; {
		case k.number == 0:
			*k = keptMessage{}
			unused++
		case int(m.Mode) >= codec.ModeCount:
			return fault("mode", m.Mode)
		case k.care > careHold || k.number > v.Last || m.Receipt != resendBit|codec.Receipt(i+1):
			return fault("kept message", k.number)
		default:
			k.buffer = m.Payload
			r.add(len(m.Payload))
		}
		if k.lost {
			r.lost++
		}
	}
	r.kept = v.Kept
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

func fault(what string, value any) error {
	return fmt.Errorf("%w: bridge: %s is %v", codec.ErrSaved, what, value)
}
