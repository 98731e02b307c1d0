package proxy

import (
	"tidegate/codec"
)

// bridge is how messages cross between a client's protocol and an upstream's. It is immutable.
type bridge struct {
	toUpstream, toClient lane
	keepsClientID        bool // the upstream says which client a client is
	asksFirst            bool // the upstream is asked before the client is granted its connection
}

func newBridge(client, upstream codec.Protocol, r *Route) *bridge {
	return &bridge{
		toUpstream:    newLane(client, upstream, r),
		toClient:      newLane(upstream, client, r),
		keepsClientID: upstream.Spec().IDs == codec.IDBeside && r.Admit == UpstreamFirst,
		asksFirst:     grants(client) && grants(upstream) && r.Admit == UpstreamFirst,
	}
}

// grants reports whether a protocol is a codec.Granter.
func grants(p codec.Protocol) bool {
	_, ok := p.(codec.Granter)
	return ok
}

// lane is one direction of a bridge.
type lane struct {
	steps [6]step // by the message's mode
	// open and seal are the envelopes on the near and the far side; nil where messages are as their protocol has them.
	open, seal *envelope
	rawID      uint16 // of messages that come without an ID, towards a wire that wants one
	wantsID    bool   // the far wire's messages have IDs
	// translator is nil where payloads are the same on both sides.
	translator Translator
	notify     bool // the far wire carries messages without an ID as Notify
	lossy      bool // a message that cannot be carried is dropped, not a reason to close
	channels   int  // of the far wire; 0: it has none
}

// step is how messages of one mode are sent on.
type step struct {
	mode codec.Mode
	hold hold
	care care
}

// care is what is done for reliability on a wire that tells what was lost but does not resend it.
type care uint8

const (
	careNone   care = iota
	careResend      // a copy is kept, and sent again whenever it was lost
	careReport      // losses are counted
	careHold        // a copy is kept, and sent to the next server if this one is lost
)

// hold is what is done for order on a wire without it.
type hold uint8

const (
	holdNone  hold = iota
	holdOne        // one message of a channel is under way at a time
	holdWatch      // sent at once; acknowledgements out of order are counted
)

func newLane(near, far codec.Protocol, r *Route) lane {
	l := lane{
		open:     envelopeOf(near.Spec(), far.Spec(), r),
		seal:     envelopeOf(far.Spec(), near.Spec(), r),
		rawID:    r.RawMessageID,
		wantsID:  far.Spec().IDs == codec.IDBeside,
		lossy:    r.AllowLossy,
		channels: far.Spec().Channels,
	}
	if r.Translator != nil && near.Spec().IDs == far.Spec().IDs {
		l.translator = r.Translator(near, far)
	}
	have := far.Spec().Modes
	if l.wantsID && near.Spec().IDs != codec.IDBeside {
		// Notify carries no message ID, so it is no stand-in for a mode that does.
		l.notify = l.open != nil && have.Has(codec.Notify)
		have &^= codec.ModesOf(codec.Notify)
	}
	for m := range l.steps {
		l.steps[m] = stepFor(codec.Mode(m), have, r)
	}
	return l
}

// envelopeOf returns the envelope of messages on the side of a protocol, towards another protocol; nil if they need
// none.
func envelopeOf(own, other *codec.Spec, r *Route) *envelope {
	e := &envelope{kind: r.Envelope, hasByte: own.IDs == codec.IDFirstByte, packetID: r.PacketID, rawID: r.RawMessageID}
	switch {
	case own.IDs == other.IDs && own.Joins == other.Joins, own.IDs == codec.IDBeside, r.Envelope == EnvelopeRaw:
		return nil
	case other.IDs == codec.IDBeside, e.hasByte, own.Joins && e.framed():
		return e
	}
	return nil
}

// stepFor finds how a mode crosses to a wire that has the given ones.
func stepFor(want codec.Mode, have codec.Modes, r *Route) step {
	if mode, ok := Carry(want, have); ok {
		return step{mode: mode}
	}
	switch {
	case want != codec.Reliable && have.Has(codec.Reliable) && r.Ordered == OrderedStrict:
		return step{mode: codec.Reliable, hold: holdOne}
	case want.IsReliable() && have.Has(codec.Reliable):
		return step{mode: codec.Reliable, hold: holdWatch}
	case want.IsReliable() && have.Has(codec.Notify) && r.Reliable == ReliableReport:
		return step{mode: codec.Notify, care: careReport}
	case want.IsReliable() && have.Has(codec.Notify) && r.Reliable == ReliableResend:
		s := step{mode: codec.Notify, care: careResend}
		if want != codec.Reliable && r.Ordered == OrderedStrict {
			s.hold = holdOne
		}
		return s
	}
	for _, weak := range []codec.Mode{codec.UnreliableSequenced, codec.Notify, codec.Unreliable} {
		if have.Has(weak) && (weak != codec.Notify || want == codec.Notify) {
			return step{mode: weak}
		}
	}
	return step{mode: codec.Unreliable}
}

// stronger lists, for each mode, the modes that keep its promise, cheapest first.
var stronger = [6][]codec.Mode{
	codec.Unreliable: {codec.Unreliable, codec.UnreliableSequenced, codec.Notify, codec.Reliable,
		codec.ReliableSequenced, codec.ReliableOrdered},
	codec.UnreliableSequenced: {codec.UnreliableSequenced, codec.Notify, codec.ReliableSequenced, codec.ReliableOrdered},
	codec.Reliable:            {codec.Reliable, codec.ReliableOrdered},
	codec.ReliableOrdered:     {codec.ReliableOrdered},
	codec.ReliableSequenced:   {codec.ReliableSequenced, codec.ReliableOrdered},
	// The sender's reports of what arrived come from its own wire, hop by hop.
	codec.Notify: {codec.Notify, codec.UnreliableSequenced, codec.ReliableSequenced, codec.ReliableOrdered},
}

// Carry picks the cheapest mode of have that is at least as strong as want.
func Carry(want codec.Mode, have codec.Modes) (codec.Mode, bool) {
	for _, m := range stronger[want] {
		if have.Has(m) {
			return m, true
		}
	}
	return 0, false
}
