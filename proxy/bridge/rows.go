package bridge

import (
	"cmp"
	"slices"

	"tidegate/codec"
	"tidegate/internal/policy"
)

// Row pairs the messages of the client's side with those of the server's: the first number of one with the first of the
// other. It is for pairs of protocols that have its forms: a number without a width stands beside the payload.
type Row struct {
	Client, Server policy.Form
	From           policy.Direction // the sender whose messages it is for
	// Mode and Channel are those towards the server, or with FromUpstream those towards the client. Nil, and a negative
	// number, mean the sender's.
	Mode    *codec.Mode
	Channel int
}

// fits reports whether messages of two protocols have the forms of the row.
func (r *Row) fits(client, server *codec.Spec) bool {
	return r.Client.IsAlone() == (client.IDs == codec.IDBeside) && r.Server.IsAlone() == (server.IDs == codec.IDBeside)
}

// way turns the row to a direction.
func (r *Row) way(from policy.Direction) Way {
	w := Way{near: r.Client, far: r.Server, channel: -1}
	if from == policy.FromUpstream {
		w.near, w.far = w.far, w.near
	}
	if from == policy.FromClient || r.From == from {
		w.mode, w.channel = r.Mode, r.Channel
	}
	return w
}

// Way is how the messages of a Row cross in one direction.
type Way struct {
	near, far policy.Form
	mode      *codec.Mode
	channel   int
	drops     bool // they do not cross
}

// turn gives a message the form of the far side. It appends a payload to b, and returns all of it.
func (w *Way) turn(b []byte, m *codec.Message) []byte {
	n := uint32(m.ID)
	if !w.near.IsAlone() {
		n, _ = w.near.Number(m.Payload)
		m.Payload = m.Payload[w.near.Len():]
	}
	n += w.far.Low - w.near.Low
	if w.near.IsAlone() != w.far.IsAlone() || len(m.Payload) == 0 {
		m.Pad = 0
	}
	if m.HasID = w.far.IsAlone(); m.HasID {
		m.ID = uint16(n)
	} else {
		b = append(w.far.Append(b, n), m.Payload...)
		m.Payload = b
	}
	if w.mode != nil {
		m.Mode = *w.mode
	}
	if w.channel >= 0 {
		m.Channel = uint8(w.channel)
	}
	return b
}

// ways find the Way of a message in one direction. Those of one kind differ only in their numbers.
type ways struct {
	kinds  [][]Way // the longest form first; each by number
	first  codec.ByteSet
	others *Way // of messages without a row; nil: they cross as without a map
}

// waysOf returns the ways from one side to the other, or nil if no row is for this pair of protocols.
func waysOf(client, server codec.Protocol, o *Options, from policy.Direction) *ways {
	var w ways
	for i := range o.Map {
		if r := &o.Map[i]; r.fits(client.Spec(), server.Spec()) {
			if w.others == nil {
				w.others = &Way{drops: true}
			}
			if r.From == policy.Both || r.From == from {
				w.add(r.way(from))
			}
		}
	}
	switch {
	case w.others == nil:
		return nil
	case o.Unmapped == policy.UnmappedPasses:
		w.others = nil
	}
	slices.SortStableFunc(w.kinds, func(a, b []Way) int { return cmp.Compare(b[0].near.Len(), a[0].near.Len()) })
	for _, kind := range w.kinds {
		slices.SortFunc(kind, func(a, b Way) int { return cmp.Compare(a.near.Low, b.near.Low) })
	}
	return &w
}

func (w *ways) add(one Way) {
	if !one.near.IsAlone() {
		low, high := one.near.FirstBytes()
		w.first.Add(low, high)
	}
	for i, kind := range w.kinds {
		if kind[0].near.IsLike(&one.near) {
			w.kinds[i] = append(kind, one)
			return
		}
	}
	w.kinds = append(w.kinds, []Way{one})
}

// find returns the way of a message, or that of messages without a row.
func (w *ways) find(m *codec.Message) *Way {
	if !m.HasID && (len(m.Payload) == 0 || !w.first.Has(m.Payload[0])) {
		return w.others
	}
	for _, kind := range w.kinds {
		n, ok := uint32(m.ID), m.HasID
		if !ok {
			n, ok = kind[0].near.Number(m.Payload)
		}
		if ok {
			if one := among(kind, n); one != nil {
				return one
			}
		}
	}
	return w.others
}

// among returns the way of a number, or nil.
func among(kind []Way, n uint32) *Way {
	low, high := 0, len(kind)
	for low < high {
		if middle := (low + high) / 2; kind[middle].near.High < n {
			low = middle + 1
		} else {
			high = middle
		}
	}
	if low < len(kind) && kind[low].near.Has(n) {
		return &kind[low]
	}
	return nil
}

// Way returns how a message that was received on the near side crosses. It is nil for a message that crosses as without
// a map, perhaps in an envelope.
func (d *Direction) Way(m *codec.Message) *Way {
	if d.ways == nil {
		return nil
	}
	return d.ways.find(m)
}

// From returns the Direction of the messages of a sender.
func (b *Bridge) From(sender policy.Direction) *Direction {
	if sender == policy.FromUpstream {
		return &b.ToClient
	}
	return &b.ToServer
}

// WayOfMade is Way for a message of a module. One with an ID from a side without IDs is as if it came in an envelope.
func (d *Direction) WayOfMade(m *codec.Message) *Way {
	if nearHasIDs := d.wantsID != d.rounds; m.HasID && !nearHasIDs {
		return nil
	}
	return d.Way(m)
}
