package riptide

import "tidegate/codec"

// overhearing reads the messages of one connection as a third party. It remembers the numbers of the newest reliable
// messages of each direction.
type overhearing struct {
	dialect *dialect
	numbers [2]map[seq]seq // by direction: the number at index (number mod overheardNumbers)
	scratch []byte
}

// overheardNumbers is how many reliable numbers of a direction are remembered: twice a receiver's window.
const overheardNumbers = 256

func newOverhearing(v Version) *overhearing {
	return &overhearing{dialect: &dialects[v], numbers: [2]map[seq]seq{make(map[seq]seq), make(map[seq]seq)}}
}

// hear is a registry.Overhear.
func (o *overhearing) hear(fromServer bool, d []byte, take func(*codec.Event)) error {
	if len(d) == 0 {
		return codec.ErrMalformed
	}
	w := o.dialect
	switch k := w.kindOf(d); {
	case k == kindUnreliable, k == kindReliable:
		return o.user(fromServer, d, take)
	case k == kindNotify:
		var h notifyHeader
		if err := h.parse(d); err != nil {
			return err
		}
		take(&codec.Event{Kind: codec.Received, Message: o.message(d, notifyHeaderLen, codec.Notify)})
	case k == kindConnect && !fromServer:
		take(&codec.Event{Kind: codec.Asked, Message: o.message(d, 0, codec.Unreliable)})
	case k == kindDisconnect && !fromServer:
		take(&codec.Event{Kind: codec.Disconnected, Reason: codec.Closed})
	case fromServer && (k == kindReject || k == kindDisconnect):
		var f goodbye
		if err := f.parse(w, d); err != nil {
			return err
		}
		if f.kind == kindReject && f.reason == rejectPending {
			return nil
		}
		take(&codec.Event{Kind: codec.Disconnected, Reason: f.meaning(), Message: o.message(d, goodbyeLen, codec.Unreliable)})
	}
	return nil
}

// user gives take an unreliable or reliable message.
func (o *overhearing) user(fromServer bool, d []byte, take func(*codec.Event)) error {
	var h userHeader
	at, err := h.parse(o.dialect, d)
	if err != nil {
		return err
	}
	mode := codec.Unreliable
	if h.reliable {
		mode = codec.Reliable
		seen := o.numbers[0]
		if fromServer {
			seen = o.numbers[1]
		}
		if last, ok := seen[h.seq%overheardNumbers]; ok && last == h.seq {
			return nil
		}
		seen[h.seq%overheardNumbers] = h.seq
	}
	m := o.message(d, at, mode)
	m.ID, m.HasID = h.id, true
	take(&codec.Event{Kind: codec.Received, Message: m})
	return nil
}

// message returns the message from byte i of d's body on.
func (o *overhearing) message(d []byte, i int, mode codec.Mode) codec.Message {
	var pad uint8
	o.scratch, pad = o.dialect.payload(o.scratch[:0], d, i)
	return codec.Message{Payload: o.scratch, Pad: pad, Mode: mode}
}
