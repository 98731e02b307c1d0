package raknet

import (
	"time"

	"tidegate/codec"
	"tidegate/codec/internal/prints"
	"tidegate/codec/internal/saved"
)

// savedReceiver is a receiver. The memory of held messages is counted anew.
type savedReceiver struct {
	Next           Seq24           `cbor:"1,keyasint"`
	Seen           []uint64        `cbor:"2,keyasint,omitempty"` // none: nothing has come
	StrayNext      Seq24           `cbor:"3,keyasint,omitempty"`
	StrayRun       int             `cbor:"4,keyasint,omitempty"`
	StrayAt        time.Duration   `cbor:"5,keyasint,omitempty"`
	HeardAt        time.Duration   `cbor:"6,keyasint,omitempty"`
	ReliableBase   Seq24           `cbor:"7,keyasint"`
	ReliableNext   Seq24           `cbor:"8,keyasint"`
	ReliableSeen   []uint64        `cbor:"9,keyasint,omitempty"`
	Prints         prints.Saved    `cbor:"10,keyasint"`
	Channels       []savedChannel  `cbor:"11,keyasint,omitempty"`
	Splits         []savedAssembly `cbor:"12,keyasint,omitempty"`
	Stranger       bool            `cbor:"13,keyasint,omitempty"` // the client is not admitted yet
	GiantBase      Seq24           `cbor:"14,keyasint,omitempty"`
	GiantSince     time.Duration   `cbor:"15,keyasint,omitempty"`
	GiantSeen      bool            `cbor:"16,keyasint,omitempty"`
	Dropped        uint64          `cbor:"17,keyasint,omitempty"`
	Patience       time.Duration   `cbor:"18,keyasint,omitempty"`
	Acks           []savedRange    `cbor:"19,keyasint,omitempty"`
	Recent         []savedRange    `cbor:"20,keyasint,omitempty"`
	Nacks          []savedRange    `cbor:"21,keyasint,omitempty"`
	Holes          []savedHole     `cbor:"22,keyasint,omitempty"`
	HolesAt        time.Duration   `cbor:"23,keyasint,omitempty"`
	AcksSince      time.Duration   `cbor:"24,keyasint,omitempty"`
	AcksAt         time.Duration   `cbor:"25,keyasint,omitempty"`
	AcksWithDataAt time.Duration   `cbor:"26,keyasint,omitempty"`
	RecentAt       time.Duration   `cbor:"27,keyasint,omitempty"`
	GiantSightings uint8           `cbor:"28,keyasint,omitempty"`
}

type savedInbound struct {
	Payload  []byte     `cbor:"1,keyasint"`
	Pad      uint8      `cbor:"2,keyasint,omitempty"`
	Mode     codec.Mode `cbor:"3,keyasint"`
	Channel  uint8      `cbor:"4,keyasint,omitempty"`
	Order    Seq24      `cbor:"5,keyasint,omitempty"`
	Sequence Seq24      `cbor:"6,keyasint,omitempty"`
}

type savedChannel struct {
	Order    Seq24          `cbor:"1,keyasint,omitempty"`
	Sequence Seq24          `cbor:"2,keyasint,omitempty"`
	Late     uint8          `cbor:"3,keyasint,omitempty"`
	StillAt  time.Duration  `cbor:"4,keyasint,omitempty"`
	Waiting  []savedInbound `cbor:"5,keyasint,omitempty"` // as in the heap
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

type savedHole struct {
	_           struct{} `cbor:",toarray"`
	First, Last Seq24
	ReliableEnd Seq24
	Closed      bool
	Asked       uint8
	AskAt       time.Duration
}

// save needs the budget of a client that is admitted.
func (r *receiver) save(maxAssembly int) savedReceiver {
	v := savedReceiver{
		Next: r.datagrams.next, StrayNext: r.strays.next, StrayRun: r.strays.run, StrayAt: r.strays.at,
		HeardAt: r.heardAt, ReliableBase: r.reliable.base, ReliableNext: r.reliable.next, ReliableSeen: r.reliable.seen,
		Prints: r.reliable.prints.Save(), Stranger: r.splits.budget != maxAssembly,
		GiantBase: r.giant.base, GiantSince: r.giant.since, GiantSeen: r.giant.seen,
		GiantSightings: r.giant.sightings, Dropped: r.dropped,
		Patience: r.patience, Acks: r.acks.save(), Recent: r.recent.save(), Nacks: r.nacks.save(),
		AcksSince: r.acksSince, AcksAt: r.acksAt, AcksWithDataAt: r.acksWithDataAt, RecentAt: r.recentAt,
	}
	if r.datagrams.seen != [len(r.datagrams.seen)]uint64{} {
		v.Seen = r.datagrams.seen[:]
	}
	for i := range r.channels.list {
		v.Channels = append(v.Channels, r.channels.list[i].save())
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
	for _, o := range r.holes.list {
		v.Holes = append(v.Holes, savedHole{
			First: o.first, Last: o.last, ReliableEnd: o.reliableEnd, Closed: o.closed, Asked: o.asked, AskAt: o.askAt,
		})
	}
	return v
}

func (m *inbound) save() savedInbound {
	return savedInbound{
		Payload: m.payload, Pad: m.pad, Mode: m.mode, Channel: m.channel, Order: m.order, Sequence: m.sequence,
	}
}

func (ch *channel) save() savedChannel {
	v := savedChannel{Order: ch.order, Sequence: ch.sequence, Late: ch.late, StillAt: ch.stillAt}
	for i := range ch.waiting {
		v.Waiting = append(v.Waiting, ch.waiting[i].save())
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
	r.strays, r.heardAt = strays{next: v.StrayNext, run: v.StrayRun, at: v.StrayAt}, v.HeardAt
	r.giant = giant{base: v.GiantBase, since: v.GiantSince, seen: v.GiantSeen,
		sightings: min(v.GiantSightings, giantSightings)}
	r.dropped, r.patience, r.scope = v.Dropped, v.Patience, everything
	r.acksSince, r.acksAt, r.acksWithDataAt, r.recentAt = v.AcksSince, v.AcksAt, v.AcksWithDataAt, v.RecentAt
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

func (c *channels) restore(list []savedChannel, memory *buffers) error {
	if len(list) > maxChannels {
		return saved.Fault("number of channels", len(list))
	}
	for i := range list {
		v := &list[i]
		if v.Late > mostLateRun || v.StillAt < -maxSpan || v.StillAt > maxSpan {
			return saved.Fault("late messages of a channel", v.Late)
		}
		ch := c.at(uint8(i))
		ch.order, ch.sequence, ch.late, ch.stillAt = v.Order, v.Sequence, v.Late, v.StillAt
		for j := range v.Waiting {
			m, err := v.Waiting[j].restore(memory)
			if err != nil {
				return err
			}
			ahead := m.order.Sub(ch.order)
			if int(m.channel) != i || !hasChannel(m.mode) || ahead < 0 {
				return saved.Fault("waiting message of a channel", i)
			}
			ch.waiting = append(ch.waiting, m)
			c.messages++
			c.bytes += cap(m.payload)
		}
	}
	if c.messages > maxWaiting {
		return saved.Fault("number of waiting messages", c.messages)
	}
	return nil
}

// maxWaiting bounds the saved messages that wait for an earlier one, beyond what any MaxHeld allows.
const maxWaiting = 64 << 20 / placeCost

func (v *savedInbound) restore(memory *buffers) (inbound, error) {
	if len(v.Payload) == 0 || v.Mode > codec.ReliableSequenced || v.Channel >= maxChannels || v.Pad > 7 {
		return inbound{}, saved.Fault("mode of a received message", v.Mode)
	}
	return inbound{
		payload: memory.copy(v.Payload), owned: true, pad: v.Pad, mode: v.Mode, channel: v.Channel,
		order: v.Order, sequence: v.Sequence,
	}, nil
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
		h.list = append(h.list, hole{
			first: o.First, last: o.Last, reliableEnd: o.ReliableEnd, closed: o.Closed, asked: o.Asked, askAt: o.AskAt,
		})
	}
	return nil
}
