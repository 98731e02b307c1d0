package enet

import (
	"errors"

	"tidegate/codec"
)

// errCompressed says that a third party cannot read a datagram: the compression is the game's own.
var errCompressed = errors.New("compressed ENet: the game chooses the compression")

// overhearing reads the messages of one connection as a third party. It remembers the newest numbers, and the parts of
// long messages.
type overhearing struct {
	Describer
	asked      connect // the client's latest
	begun      bool    // the client has asked
	verified   bool    // the server has answered
	seen       map[place]uint64
	assemblies map[assembled]*assembly
}

// place is where the number of a command is remembered.
type place struct {
	fromServer bool
	kind       kind
	channel    uint8
	index      uint64 // of the number, modulo overheardNumbers
}

// overheardNumbers is how many numbers of a channel and kind are remembered.
const overheardNumbers = 1024

// assembled identifies a message in parts.
type assembled struct {
	fromServer      bool
	kind            kind
	channel         uint8
	reliable, start uint16
}

// Bounds of messages in parts.
const (
	maxOverheard     = 2 << 20 // bytes of one
	maxOverheardOpen = 64      // that are incomplete
)

func newOverhearing() *overhearing {
	return &overhearing{seen: make(map[place]uint64), assemblies: make(map[assembled]*assembly)}
}

// hear is a registry.Overhear.
func (o *overhearing) hear(fromServer bool, datagram []byte, take func(*codec.Event)) error {
	var h header
	rest, _, err := o.open(&h, datagram)
	switch {
	case err != nil:
		return err
	case h.compressed:
		return errCompressed
	}
	for len(rest) > 0 {
		var c command
		if rest, err = c.parse(rest); err != nil {
			return err
		}
		if err := o.command(fromServer, &c, take); err != nil {
			return err
		}
	}
	return nil
}

func (o *overhearing) command(fromServer bool, c *command, take func(*codec.Event)) error {
	switch c.kind {
	case kindConnect:
		o.ask(c, take)
	case kindVerify:
		o.verified = o.verified || fromServer
	case kindDisconnect:
		take(&codec.Event{Kind: codec.Disconnected, Reason: o.reason(fromServer, be.Uint32(c.body))})
	case kindReliable:
		o.message(fromServer, c, uint64(c.seq), codec.ReliableOrdered, take)
	case kindUnreliable:
		o.message(fromServer, c, uint64(c.seq)<<16|uint64(be.Uint16(c.body)), codec.UnreliableSequenced, take)
	case kindUnsequenced:
		o.message(fromServer, c, uint64(be.Uint16(c.body)), codec.Unreliable, take)
	case kindFragment, kindUnreliableFragment:
		return o.fragment(fromServer, c, take)
	}
	return nil
}

// ask handles a Connect. A new one begins another connection.
func (o *overhearing) ask(c *command, take func(*codec.Event)) {
	var asked connect
	asked.parse(c.body)
	if o.begun && asked.connectID == o.asked.connectID {
		return
	}
	format := o.Describer
	*o = *newOverhearing()
	o.Describer, o.asked, o.begun = format, asked, true
	take(&codec.Event{Kind: codec.Asked, Message: codec.Message{Payload: dataBytes(asked.data)}})
}

// reason returns why a connection ends, as the side that hears it would say.
func (o *overhearing) reason(fromServer bool, data uint32) codec.Reason {
	refused := fromServer && o.begun && !o.verified
	switch {
	case refused && data != 0:
		return codec.RejectedCustom
	case refused:
		return codec.Rejected
	case fromServer && data != 0:
		return codec.Kicked
	}
	return codec.Closed
}

// again reports whether a command with this number was heard before.
func (o *overhearing) again(fromServer bool, c *command, number uint64) bool {
	at := place{fromServer, c.kind, c.channel, number % overheardNumbers}
	last, known := o.seen[at]
	o.seen[at] = number
	return known && last == number
}

func (o *overhearing) message(fromServer bool, c *command, number uint64, mode codec.Mode, take func(*codec.Event)) {
	if !o.again(fromServer, c, number) {
		o.take(c, mode, c.payload, take)
	}
}

func (o *overhearing) take(c *command, mode codec.Mode, payload []byte, take func(*codec.Event)) {
	m := codec.Message{Payload: payload, Mode: mode, Channel: c.channel}
	take(&codec.Event{Kind: codec.Received, Message: m})
}

// fragment takes a part of a message, and gives take the message that it completes.
func (o *overhearing) fragment(fromServer bool, c *command, take func(*codec.Event)) error {
	var f fragment
	if err := f.parse(c.body, len(c.payload)); err != nil {
		return err
	}
	key := assembled{fromServer: fromServer, kind: c.kind, channel: c.channel, start: f.start}
	number, mode := uint64(c.seq), codec.ReliableOrdered
	if c.kind == kindUnreliableFragment {
		key.reliable = c.seq
		number, mode = uint64(c.seq)<<32|uint64(f.start)<<16|uint64(uint16(f.index)), codec.UnreliableSequenced
	}
	if f.total > maxOverheard || f.count > maxFlight {
		return codec.ErrMalformed
	}
	if o.again(fromServer, c, number) {
		return nil
	}
	a := o.assemblies[key]
	if a == nil || !a.fits(&f) { // a number comes round
		if len(o.assemblies) == maxOverheardOpen {
			clear(o.assemblies)
		}
		a = newAssembly(&f, key.reliable)
		o.assemblies[key] = a
	}
	if err := a.add(&f, c.payload); err != nil || a.left > 0 {
		return nil // nothing is complete
	}
	delete(o.assemblies, key)
	o.take(c, mode, a.payload, take)
	return nil
}
