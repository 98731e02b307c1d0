package bridge

import (
	"fmt"

	"tidegate/codec"
	"tidegate/internal/policy"
)

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
