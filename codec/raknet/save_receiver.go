package raknet

import (
	"time"

	"tidegate/codec"
	"tidegate/codec/internal/prints"
	"tidegate/codec/internal/saved"
)

// savedReceiver is a receiver. The memory of held messages is counted anew.
type savedReceiver struct {
	receiverState
	ackTimes
	strays
	giant
	Next         Seq24           `cbor:"1,keyasint"`
	Seen         []uint64        `cbor:"2,keyasint,omitempty"` // none: nothing has come
	ReliableBase Seq24           `cbor:"7,keyasint"`
	ReliableNext Seq24           `cbor:"8,keyasint"`
	ReliableSeen []uint64        `cbor:"9,keyasint,omitempty"`
	Prints       prints.Saved    `cbor:"10,keyasint"`
	Channels     []channel       `cbor:"11,keyasint,omitempty"`
	Splits       []savedAssembly `cbor:"12,keyasint,omitempty"`
	Stranger     bool            `cbor:"13,keyasint,omitempty"` // the client is not admitted yet
	Acks         []savedRange    `cbor:"19,keyasint,omitempty"`
	Recent       []savedRange    `cbor:"20,keyasint,omitempty"`
	Nacks        []savedRange    `cbor:"21,keyasint,omitempty"`
	Holes        []hole          `cbor:"22,keyasint,omitempty"`
	HolesAt      time.Duration   `cbor:"23,keyasint,omitempty"`
}

type savedAssembly struct {
	ID       uint16        `cbor:"1,keyasint"`
	Mode     codec.Mode    `cbor:"2,keyasint"`
	Channel  uint8         `cbor:"3,keyasint,omitempty"`
	Order    Seq24         `cbor:"4,keyasint,omitempty"`
	Sequence Seq24         `cbor:"5,keyasint,omitempty"`
	Parts    [][]byte      `cbor:"6,keyasint"` // by index; empty if missing
	Pad      uint8         `cbor:"7,keyasint,omitempty"`
	FedAt    time.Duration `cbor:"8,keyasint,omitempty"`
	Newer    [][]byte      `cbor:"9,keyasint,omitempty"` // as Parts, or none
}

type savedRange struct {
	_           struct{} `cbor:",toarray"`
	First, Last Seq24
}

// save needs the budget of a client that is admitted.
func (r *receiver) save(maxAssembly int) savedReceiver {
	v := savedReceiver{
		receiverState: r.receiverState, ackTimes: r.ackTimes, strays: r.strays, giant: r.giant, Next: r.datagrams.next,
		ReliableBase: r.reliable.base, ReliableNext: r.reliable.next, ReliableSeen: r.reliable.seen,
		Prints: r.reliable.prints.Save(), Stranger: r.splits.budget != maxAssembly,
		Acks: r.acks.save(), Recent: r.recent.save(), Nacks: r.nacks.save(),
		Channels: r.channels.list, Holes: r.holes.list,
	}
	if r.datagrams.seen != [len(r.datagrams.seen)]uint64{} {
		v.Seen = r.datagrams.seen[:]
	}
	for _, a := range r.splits.open {
		v.Splits = append(v.Splits, savedAssembly{
			ID: a.first.splitID, Mode: a.first.mode, Channel: a.first.channel, Order: a.first.order,
			Sequence: a.first.sequence, Parts: a.parts, Pad: a.pad, FedAt: a.fedAt, Newer: a.newer,
		})
	}
	if len(r.holes.list) > 0 {
		v.HolesAt = r.holes.at
	}
	return v
}

func (q *ackQueue) save() (list []savedRange) {
	for _, r := range q.ranges {
		list = append(list, savedRange{First: r.first, Last: r.last})
	}
	return list
}

// restore brings a fresh receiver, whose MTU is set, to a saved state.
func (r *receiver) restore(v *savedReceiver, o *Options) error {
	r.datagrams.next = v.Next
	if len(v.Seen) > 0 && len(v.Seen) != len(r.datagrams.seen) {
		return saved.Fault("length of the window", len(v.Seen))
	}
	copy(r.datagrams.seen[:], v.Seen)
	r.anchor.restore(&r.datagrams)
	r.receiverState, r.ackTimes, r.strays, r.giant, r.scope = v.receiverState, v.ackTimes, v.strays, v.giant, everything
	r.giant.GiantSightings = min(v.GiantSightings, giantSightings)
	if v.Stranger {
		r.splits.budget = min(o.MaxAssembly, strangerAssembly)
	}
	for i, list := range [...][]savedRange{v.Acks, v.Recent, v.Nacks} {
		if err := [...]*ackQueue{&r.acks, &r.recent, &r.nacks}[i].restore(list); err != nil {
			return err
		}
	}
	if err := r.reliable.restore(v); err != nil {
		return err
	}
	if err := r.channels.restore(v.Channels, r.memory); err != nil {
		return err
	}
	if err := r.splits.restore(v.Splits); err != nil {
		return err
	}
	return r.holes.restore(v)
}

func (w *reliableWindow) restore(v *savedReceiver) error {
	w.base, w.next, w.seen = v.ReliableBase, v.ReliableNext, v.ReliableSeen
	ahead, places := w.next.Sub(w.base), len(w.seen)
	switch {
	case places > maxReliableAhead/64 || places&(places-1) != 0:
		return saved.Fault("length of the reliable window", places)
	case ahead < 0 || ahead > w.size() || places > 0 && w.has(w.base):
		return saved.Fault("oldest missing reliable number", v.ReliableBase)
	}
	var err error
	w.prints, err = v.Prints.Restore(1 << 24)
	return err
}

func (c *channels) restore(list []channel, memory *buffers) error {
	if len(list) > maxChannels {
		return saved.Fault("number of channels", len(list))
	}
	for i := range list {
		v := &list[i]
		if v.Late > mostLateRun || v.StillAt < -maxSpan || v.StillAt > maxSpan {
			return saved.Fault("late messages of a channel", v.Late)
		}
		ch := c.at(uint8(i))
		ch.Order, ch.Sequence, ch.Late, ch.StillAt = v.Order, v.Sequence, v.Late, v.StillAt
		for j := range v.Waiting {
			m, err := v.Waiting[j].restore(memory)
			if err != nil {
				return err
			}
			ahead := m.Order.Sub(ch.Order)
			if int(m.Channel) != i || !hasChannel(m.Mode) || ahead < 0 {
				return saved.Fault("waiting message of a channel", i)
			}
			ch.Waiting = append(ch.Waiting, m)
			c.messages++
			c.bytes += cap(m.Payload)
		}
	}
	if c.messages > maxWaiting {
		return saved.Fault("number of waiting messages", c.messages)
	}
	return nil
}

// maxWaiting bounds the saved messages that wait for an earlier one, beyond what any MaxHeld allows.
const maxWaiting = 64 << 20 / placeCost

// restore returns a message of a record in memory of its own.
func (v *inbound) restore(memory *buffers) (inbound, error) {
	if len(v.Payload) == 0 || v.Mode > codec.ReliableSequenced || v.Channel >= maxChannels || v.Pad > 7 {
		return inbound{}, saved.Fault("mode of a received message", v.Mode)
	}
	m := *v
	m.Payload, m.owned = memory.copy(v.Payload), true
	return m, nil
}

func (r *reassembly) restore(list []savedAssembly) error {
	if len(list) > maxSplits {
		return saved.Fault("number of split messages", len(list))
	}
	for i := range list {
		v := &list[i]
		switch {
		case !v.Mode.IsReliable() || v.Mode > codec.ReliableSequenced || v.Channel >= maxChannels || v.Pad > 7:
			return saved.Fault("mode of a split message", v.Mode)
		case r.partRoom == 0 || len(v.Parts) < 2 || len(v.Parts) > (r.budget-r.reserved)/r.partRoom:
			return saved.Fault("number of parts", len(v.Parts))
		case v.FedAt < -maxSpan || v.FedAt > maxSpan:
			return saved.Fault("time", v.FedAt)
		}
		a := &assembly{parts: make([][]byte, len(v.Parts)), pad: v.Pad, fedAt: v.FedAt}
		a.first = capsule{
			split: true, splitID: v.ID, splitCount: uint32(len(v.Parts)),
			mode: v.Mode, channel: v.Channel, order: v.Order, sequence: v.Sequence,
		}
		r.held += assemblyCost + len(a.parts)*partPlaceCost
		r.reserved += len(a.parts) * r.partRoom
		for j, part := range v.Parts {
			switch {
			case len(part) > r.partRoom:
				return saved.Fault("length of a part", len(part))
			case len(part) == 0:
				a.missing++
			default:
				a.parts[j] = r.memory.copy(part)
				r.held += cap(a.parts[j])
			}
		}
		if a.missing == 0 {
			return saved.Fault("number of missing parts", a.missing)
		}
		r.open = append(r.open, a)
		if err := r.restoreNewer(a, v.Newer); err != nil {
			return err
		}
	}
	return nil
}

func (r *reassembly) restoreNewer(a *assembly, parts [][]byte) error {
	if len(parts) > len(a.parts) {
		return saved.Fault("number of newer parts", len(parts))
	}
	for i, part := range parts {
		switch {
		case len(part) > r.partRoom:
			return saved.Fault("length of a part", len(part))
		case len(part) > 0 && (a.parts[i] == nil || r.reserved+r.partRoom > r.budget):
			return saved.Fault("newer part without an older one, or without room", i)
		case len(part) > 0:
			newer := r.memory.copy(part)
			r.held += cap(newer)
			r.renew(a, uint32(i), newer)
		}
	}
	return nil
}

// restore makes a sorted set of ranges without a gap of less than one number.
func (q *ackQueue) restore(list []savedRange) error {
	if len(list) > maxAckRanges {
		return saved.Fault("number of ranges", len(list))
	}
	q.clear()
	for i, r := range list {
		n := r.Last.Sub(r.First) + 1
		if n < 1 || n > maxAckNumbers || i > 0 && r.First.Sub(list[i-1].Last) < 2 {
			return saved.Fault("range of numbers", r)
		}
		q.ranges = append(q.ranges, ackRange{first: r.First, last: r.Last})
		q.count += n
	}
	return nil
}

// maxAckNumbers bounds one range of saved numbers.
const maxAckNumbers = 1 << 16

func (h *holes) restore(v *savedReceiver) error {
	if len(v.Holes) > maxHoles {
		return saved.Fault("number of holes", len(v.Holes))
	}
	h.list, h.at = h.list[:0], v.HolesAt
	for i, o := range v.Holes {
		n := o.Last.Sub(o.First) + 1
		if n < 1 || n > maxAckNumbers || i > 0 && !v.Holes[i-1].Last.Before(o.First) ||
			o.AskAt > maxSpan || o.AskAt < -maxSpan || o.Asked > mostAsks {
			return saved.Fault("hole", o)
		}
		h.list = append(h.list, o)
	}
	return nil
}
