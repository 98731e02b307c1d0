package raknet

import (
	"time"

	"tidegate/codec"
	"tidegate/codec/internal/prints"
	"tidegate/codec/internal/saved"
)

// savedReceiver is a receiver. The memory of held messages is counted anew.
type savedReceiver struct {
	*receiver
	Prints   prints.Saved  `cbor:"10,keyasint"`
	Stranger bool          `cbor:"13,keyasint,omitempty"` // the client is not admitted yet
	Acks     []savedRange  `cbor:"19,keyasint,omitempty"`
	Recent   []savedRange  `cbor:"20,keyasint,omitempty"`
	Nacks    []savedRange  `cbor:"21,keyasint,omitempty"`
	HolesAt  time.Duration `cbor:"23,keyasint,omitempty"`
}

type savedRange struct {
	_           struct{} `cbor:",toarray"`
	First, Last Seq24
}

// save needs the budget of a client that is admitted.
func (r *receiver) save(maxAssembly int) savedReceiver {
	v := savedReceiver{
		receiver: r, Prints: r.reliable.prints.Save(), Stranger: r.splits.budget != maxAssembly,
		Acks: r.acks.save(), Recent: r.recent.save(), Nacks: r.nacks.save(),
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
	r.anchor.restore(&r.datagrams)
	r.scope = everything
	r.giant.GiantSightings = min(r.giant.GiantSightings, giantSightings)
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
	if err := r.channels.restore(r.memory); err != nil {
		return err
	}
	if err := r.splits.restore(); err != nil {
		return err
	}
	r.holes.at = v.HolesAt
	return r.holes.check()
}

func (w *reliableWindow) restore(v *savedReceiver) error {
	ahead, places := w.next.Sub(w.base), len(w.seen)
	switch {
	case places > maxReliableSpan/64 || places&(places-1) != 0:
		return saved.Fault("length of the reliable window", places)
	case ahead < 0 || ahead > w.size() || places > 0 && w.has(w.base):
		return saved.Fault("oldest missing reliable number", w.base)
	}
	var err error
	w.prints, err = v.Prints.Restore(1 << 24)
	return err
}

func (c *channels) restore(memory *buffers) error {
	if len(c.list) > maxChannels {
		return saved.Fault("number of channels", len(c.list))
	}
	for i := range c.list {
		ch := &c.list[i]
		if ch.Late > mostLateRun || len(ch.Passed) > mostPassed || ch.StillAt < -maxSpan || ch.StillAt > maxSpan {
			return saved.Fault("state of a channel", i)
		}
		for j := range ch.Waiting {
			m := &ch.Waiting[j]
			if err := m.restore(memory); err != nil {
				return err
			}
			if int(m.Channel) != i || !hasChannel(m.Mode) || m.Order.Sub(ch.Order) < 0 {
				return saved.Fault("waiting message of a channel", i)
			}
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

// restore gives a message of a record memory of its own.
func (m *inbound) restore(memory *buffers) error {
	if len(m.Payload) == 0 || m.Mode > codec.ReliableSequenced || m.Channel >= maxChannels || m.Pad > 7 {
		return saved.Fault("mode of a received message", m.Mode)
	}
	m.Payload, m.owned = memory.copy(m.Payload), true
	return nil
}

func (r *reassembly) restore() error {
	if len(r.open) > maxSplits || r.partRoom > 1<<classOf(codec.MaxDatagram) {
		return saved.Fault("number of split messages, or their size", len(r.open))
	}
	for i, a := range r.open {
		switch {
		case a == nil, !a.first.mode.IsReliable(), a.first.mode > codec.ReliableSequenced, a.first.channel >= maxChannels,
			a.pad > 7:
			return saved.Fault("mode of a split message", i)
		case r.partRoom == 0 || len(a.parts) < 2 || len(a.parts) > (r.budget-r.reserved)/r.partRoom:
			return saved.Fault("number of parts", len(a.parts))
		case a.fedAt < -maxSpan || a.fedAt > maxSpan:
			return saved.Fault("time", a.fedAt)
		}
		a.first.split, a.first.splitCount = true, uint32(len(a.parts))
		r.held += assemblyCost + len(a.parts)*partPlaceCost
		r.reserved += len(a.parts) * r.partRoom
		for j, part := range a.parts {
			switch {
			case len(part) > r.partRoom:
				return saved.Fault("length of a part", len(part))
			case len(part) == 0:
				a.parts[j] = nil
				a.missing++
			default:
				a.parts[j] = r.memory.copy(part)
				r.held += cap(a.parts[j])
			}
		}
		if a.missing == 0 {
			return saved.Fault("number of missing parts", a.missing)
		}
		if err := r.restoreNewer(a); err != nil {
			return err
		}
	}
	return nil
}

func (r *reassembly) restoreNewer(a *assembly) error {
	parts := a.newer
	if a.newer = nil; len(parts) > len(a.parts) {
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

// check holds the holes of a record to their bounds.
func (h *holes) check() error {
	if len(h.list) > maxHoles {
		return saved.Fault("number of holes", len(h.list))
	}
	for i, o := range h.list {
		n := o.Last.Sub(o.First) + 1
		if n < 1 || n > maxAckNumbers || i > 0 && !h.list[i-1].Last.Before(o.First) ||
			o.AskAt > maxSpan || o.AskAt < -maxSpan || o.Asked > mostAsks {
			return saved.Fault("hole", o)
		}
	}
	return nil
}
