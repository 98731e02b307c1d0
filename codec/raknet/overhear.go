package raknet

import (
	"errors"
	"fmt"

	"tidegate/codec"
)

// errEncrypted says that a third party cannot read a connection.
var errEncrypted = errors.New("encrypted RakNet: its keys are not in the datagrams")

// overhearing reads the messages of one connection as a third party. It remembers the parts of split messages, and
// the newest reliable numbers, as a Describer does.
type overhearing struct {
	version    uint8 // of the protocol, as the client's first request says
	encrypted  bool
	fromClient describedDirection
	fromServer describedDirection
}

// hear is a registry.Overhear.
func (o *overhearing) hear(fromServer bool, b []byte, take func(*codec.Event)) error {
	if id, ok := offlineID(b); ok {
		o.offline(id, b)
		return nil
	}
	if o.encrypted {
		return errEncrypted
	}
	var got datagram
	if err := got.parse(b); err != nil {
		return err
	}
	if got.kind != dataDatagram {
		return nil
	}
	way := &o.fromClient
	if fromServer {
		way = &o.fromServer
	}
	for body := got.body; !isPadding(body); {
		var c capsule
		var err error
		if body, err = c.parse(body); err != nil {
			return err
		}
		if err := o.capsule(way, &c, take); err != nil {
			return err
		}
	}
	return nil
}

// offline learns from the datagrams before a connection.
func (o *overhearing) offline(id byte, b []byte) {
	switch id {
	case idOpenConnectionRequest1:
		var m openConnectionRequest1
		if m.parse(b) == nil {
			o.version = m.version
		}
	case idOpenConnectionReply2:
		var m openConnectionReply2
		if m.parse(b) == nil { // the numbers of a connection start again
			*o = overhearing{version: o.version, encrypted: m.encrypts}
		}
	}
}

// capsule gives take the message that a capsule has or completes.
func (o *overhearing) capsule(way *describedDirection, c *capsule, take func(*codec.Event)) error {
	if c.mode.IsReliable() && way.seen(c.reliable) {
		return nil
	}
	payload, pad := c.payload, c.pad
	if c.split {
		var err error
		if payload, pad, err = way.join(c); payload == nil || err != nil {
			return err
		}
	}
	switch {
	case payload[0] >= idFirstUser:
		m := codec.Message{Payload: payload, Pad: pad, Mode: c.mode, Channel: c.channel}
		take(&codec.Event{Kind: codec.Received, Message: m})
	case payload[0] == idConnectionRequest:
		var m connectionRequest
		if err := m.parse(payload); err != nil {
			return fmt.Errorf("connection request: %w", err)
		}
		o.encrypted = o.encrypted || m.encrypts
		take(&codec.Event{Kind: codec.Asked, Message: codec.Message{Payload: m.password}, Version: o.version})
	case payload[0] == idDisconnectionNotification:
		take(&codec.Event{Kind: codec.Disconnected, Reason: codec.Closed})
	}
	return nil
}
