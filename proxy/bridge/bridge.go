// Package bridge carries messages from one protocol to another. It decides their mode, envelope and order, and
// resends them. It knows no Relay and no session.
package bridge

import (
	"tidegate/codec"
	"tidegate/internal/policy"
)

// Bridge holds the rules by which messages cross between a client's protocol and a server's. It is immutable.
type Bridge struct {
	ToServer, ToClient Direction
}

// New returns the Bridge between two protocols.
func New(client, server codec.Protocol, o *Options) *Bridge {
	b := &Bridge{ToServer: newDirection(client, server, o), ToClient: newDirection(server, client, o)}
	b.ToServer.ways = waysOf(client, server, o, policy.FromClient)
	b.ToClient.ways = waysOf(client, server, o, policy.FromUpstream)
	return b
}

// Direction holds the rules by which messages cross from the near side to the far side.
type Direction struct {
	steps [6]step // by the message's mode
	// open and seal are the envelopes on the near and the far side. Each is nil where its side uses no envelope.
	open, seal *envelope
	ways       *ways  // nil: no row is for these protocols
	rawID      uint16 // the ID for messages without one, if the far protocol has message IDs
	wantsID    bool   // the far protocol's messages have IDs
	rounds     bool   // a last byte goes on whole: the sides leave other bits unused
	// translator is nil where payloads are the same on both sides.
	translator Translator
	notify     bool // the far protocol carries messages without an ID as Notify
	strict     bool // a message without a row or types ends the session
	lossy      bool // a message that cannot be carried is dropped, and the session stays open
	channels   int  // the far protocol's number of channels; 0 if it has none
	queue      int  // the limit of bytes held back to keep order, and again of bytes in copies
}

// step says how messages of one mode are sent on.
type step struct {
	mode codec.Mode
	hold hold
	care care
}

// care says how reliability is kept on a wire that reports losses but does not resend.
type care uint8

const (
	careNone   care = iota
	careResend      // a copy is kept, and sent again after each loss
	careReport      // losses are counted
	careHold        // a copy is kept, and sent to the next server if the present one is lost
)

// hold says how order is kept on a wire that does not keep it.
type hold uint8

const (
	holdNone  hold = iota
	holdOne        // one message of a channel is under way at a time
	holdWatch      // sent at once; acknowledgements out of order are counted
)

func newDirection(near, far codec.Protocol, o *Options) Direction {
	d := Direction{
		open:     envelopeOf(near.Spec(), far.Spec(), o),
		seal:     envelopeOf(far.Spec(), near.Spec(), o),
		rawID:    o.RawMessageID,
		wantsID:  far.Spec().IDs == codec.IDBeside,
		lossy:    o.AllowLossy,
		strict:   o.Unmapped == policy.UnmappedEnds,
		rounds:   (near.Spec().IDs == codec.IDBeside) != (far.Spec().IDs == codec.IDBeside),
		channels: far.Spec().Channels,
		queue:    o.Queue,
	}
	if o.Translator != nil && near.Spec().IDs == far.Spec().IDs {
		d.translator = o.Translator(near, far)
	}
	have := far.Spec().Modes
	if d.wantsID && near.Spec().IDs != codec.IDBeside {
		// Notify carries no message ID, so it cannot replace a mode that carries one.
		d.notify = d.open != nil && have.Has(codec.Notify)
		have &^= codec.ModesOf(codec.Notify)
	}
	for m := range d.steps {
		d.steps[m] = stepFor(codec.Mode(m), have, o)
	}
	return d
}

// envelopeOf returns the envelope of messages on own's side of a bridge to other. It returns nil if they need none.
func envelopeOf(own, other *codec.Spec, o *Options) *envelope {
	e := &envelope{kind: o.Envelope, hasByte: own.IDs == codec.IDFirstByte, packetID: o.PacketID, rawID: o.RawMessageID}
	switch {
	case own.IDs == other.IDs && own.Joins == other.Joins, own.IDs == codec.IDBeside, o.Envelope == policy.EnvelopeRaw:
		return nil
	case other.IDs == codec.IDBeside, e.hasByte, own.Joins && e.framed():
		return e
	}
	return nil
}

// stepFor returns how a message of mode want crosses to a wire with the modes have.
func stepFor(want codec.Mode, have codec.Modes, o *Options) step {
	if mode, ok := Carry(want, have); ok {
		return step{mode: mode}
	}
	switch {
	case want != codec.Reliable && have.Has(codec.Reliable) && o.Ordered == policy.OrderedStrict:
		return step{mode: codec.Reliable, hold: holdOne}
	case want.IsReliable() && have.Has(codec.Reliable):
		return step{mode: codec.Reliable, hold: holdWatch}
	case want.IsReliable() && have.Has(codec.Notify) && o.Reliable == policy.ReliableReport:
		return step{mode: codec.Notify, care: careReport}
	case want.IsReliable() && have.Has(codec.Notify) && o.Reliable == policy.ReliableResend:
		s := step{mode: codec.Notify, care: careResend}
		if want != codec.Reliable && o.Ordered == policy.OrderedStrict {
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
	// Each wire reports arrivals to its own sender, hop by hop.
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
