package bridge

import (
	"cmp"
	"fmt"
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

// Crossing says how messages of one mode are sent on towards another protocol.
type Crossing struct {
	From, To codec.Mode
	// Remark describes the promise that To alone does not keep. It is empty if To keeps the whole promise.
	Remark string
}

// String returns To and the remark.
func (c Crossing) String() string {
	if c.Remark == "" {
		return c.To.String()
	}
	return c.To.String() + ": " + c.Remark
}

// Crossings returns how each mode of near is sent on to far with the given options.
func Crossings(near, far codec.Protocol, o *Options) []Crossing {
	d := newDirection(near, far, o)
	var all []Crossing
	for m, step := range d.steps {
		from := codec.Mode(m)
		if !near.Spec().Modes.Has(from) {
			continue
		}
		c := Crossing{From: from, To: step.mode}
		_, kept := Carry(from, codec.ModesOf(step.mode))
		switch {
		case step.care == careResend && step.hold == holdOne:
			c.Remark = "one of a channel at a time, again until it arrived: at least once, in order"
		case step.care == careResend:
			c.Remark = "again until it arrived: at least once"
		case step.care == careReport:
			c.Remark = "may be lost; losses are counted"
		case step.hold == holdOne:
			c.Remark = "one of a channel per round trip, in order"
		case step.hold == holdWatch:
			c.Remark = "at once, in order while the network keeps it"
		case !kept && !from.IsReliable():
			c.Remark = "a stale one may arrive late"
		case !kept:
			c.Remark = "may be lost"
		}
		all = append(all, c)
	}
	return all
}

// Mapped describes the map's rows between two protocols for messages of one side, in their order, and the rule for all
// others. It returns nothing if no row is for these protocols.
func Mapped(client, server codec.Protocol, o *Options, from policy.Direction) (lines []string) {
	if waysOf(client, server, o, from) == nil {
		return nil
	}
	for i := range o.Map {
		r := &o.Map[i]
		if r.From != policy.Both && r.From != from || !r.fits(client.Spec(), server.Spec()) {
			continue
		}
		w := r.way(from)
		line := fmt.Sprintf("%-20s as %s", w.near, w.far)
		if w.mode != nil {
			line += ", " + w.mode.String()
		}
		if w.channel >= 0 {
			line += fmt.Sprintf(", channel %d", w.channel)
		}
		lines = append(lines, line)
	}
	return append(lines, fmt.Sprintf("%-20s %s", "any other message", [...]string{
		policy.UnmappedPasses: "as above", policy.UnmappedDrops: "is dropped", policy.UnmappedEnds: "ends the session",
	}[o.Unmapped]))
}

// Framing describes the change of the messages' form between near and far.
func Framing(near, far codec.Protocol, o *Options) string {
	d := newDirection(near, far, o)
	switch {
	case d.open != nil && d.seal != nil:
		return "taken out of envelope " + d.open.String() + " and put into envelope " + d.seal.String()
	case d.open != nil:
		return "taken out of envelope " + d.open.String()
	case d.seal != nil:
		return "put into envelope " + d.seal.String()
	case d.translator != nil:
		return d.translator.String()
	case d.wantsID && near.Spec().IDs != codec.IDBeside:
		return fmt.Sprintf("passed as they are, with message ID %d", o.RawMessageID)
	case !d.wantsID && near.Spec().IDs == codec.IDBeside:
		return "passed without their message IDs"
	}
	return "passed as they are"
}

// String returns the envelope's name and packet byte, as in the configuration.
func (e *envelope) String() string {
	name := e.kind.String()
	if e.hasByte {
		name += fmt.Sprintf(" with packet byte 0x%02x", e.packetID)
	}
	return name
}
