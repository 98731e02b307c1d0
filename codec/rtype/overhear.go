package rtype

import (
	"bytes"
	"time"

	"tidegate/codec"
)

// overhearing reads the messages of one session as a third party. A client of our own hears the server, and its
// format is that of the client's messages.
type overhearing struct {
	options Options
	ear     *client
	dialect Dialect // as the messages so far show
}

func newOverhearing(d Dialect) *overhearing {
	o := &overhearing{options: Options{Dialect: d}.withDefaults(), dialect: d}
	o.restart()
	return o
}

// epoch stands for all times: nothing here depends on one.
var epoch = time.Unix(1, 0)

// restart begins another session.
func (o *overhearing) restart() { o.ear = dial(&o.options, epoch) }

// hear is a registry.Overhear.
func (o *overhearing) hear(fromServer bool, d []byte, take func(*codec.Event)) error {
	switch {
	case len(d) == 0:
		return errLength
	case fromServer:
		return o.server(d, take)
	}
	return o.client(d, take)
}

func (o *overhearing) server(d []byte, take func(*codec.Event)) error {
	err := o.ear.Receive(epoch, d)
	if dialect := o.spoken(); dialect != o.dialect {
		o.dialect = dialect
		o.ask(take)
	}
	for e, ok := o.ear.Poll(); ok; e, ok = o.ear.Poll() {
		if e.Kind != codec.Connected {
			take(&e)
		}
	}
	if err == codec.ErrDuplicate {
		return nil
	}
	return err
}

// spoken returns the dialect, or Auto while the one of the game's first three is unknown.
func (o *overhearing) spoken() Dialect {
	switch {
	case o.ear.format.document:
		return Document
	case o.ear.format.isFinal():
		return GameLast
	}
	return o.options.Dialect
}

func (o *overhearing) ask(take func(*codec.Event)) {
	take(&codec.Event{Kind: codec.Asked, Version: uint8(o.dialect)})
}

// client reads a client's datagram: a hello, keys, or an update.
func (o *overhearing) client(d []byte, take func(*codec.Event)) error {
	fresh := o.ear.state != connected && !o.ear.gather.begun()
	opens := fresh && len(d) == 1 && d[0] <= maxKey && o.options.Dialect <= Document
	f := &o.ear.format
	switch {
	case bytes.Equal(d, o.options.Hello) && !f.document, bytes.Equal(d, lastHello) && (f.isFinal() || opens):
		o.restart() // the server names its components again
		o.ask(take)
		return nil
	case bytes.Equal(d, pong), f.isFinal() && opcode(d[0]) != update:
		return nil
	case opens:
		o.ask(take)
	}
	if len(d) == 1 || f.document {
		return o.keys(d, take)
	}
	return o.update(d, take)
}

func (o *overhearing) keys(d []byte, take func(*codec.Event)) error {
	for i, key := range d {
		if key > maxKey || !o.ear.format.hasKeys() {
			return errOpcode
		}
		take(&codec.Event{Kind: codec.Received, Message: codec.Message{Payload: d[i : i+1]}})
	}
	return nil
}

func (o *overhearing) update(d []byte, take func(*codec.Event)) error {
	if o.ear.format.width == 0 {
		return errWidth
	}
	var in instruction
	if err := in.parseAlone(d, &o.ear.format, o.ear.sizes); err != nil {
		return err
	}
	if in.op != update {
		return errOpcode
	}
	take(&codec.Event{Kind: codec.Received, Message: codec.Message{Payload: in.append(nil, &canonical)}})
	return nil
}

// numbers counts the entities of a session, and implements registry.Numbers. Its messages are canonical. An entity
// without a known beginning keeps its number, with the bit unknownEntity.
type numbers struct {
	common map[uint32]uint32 // by the entity's number in the session
	ids    []uint32          // by common number
	gone   map[uint32]bool   // deleted: the next create makes another entity
}

const unknownEntity = 1 << 31

func newNumbers() *numbers {
	return &numbers{common: make(map[uint32]uint32), gone: make(map[uint32]bool)}
}

// entityOf returns the place of an instruction's entity, or nil.
func entityOf(message []byte) []byte {
	if len(message) < 5 || opcode(message[0]) > detach {
		return nil
	}
	return message[1:5]
}

// ToCommon implements registry.Numbers.
func (n *numbers) ToCommon(fromServer bool, message []byte) {
	at := entityOf(message)
	if at == nil {
		return
	}
	id, op := be.Uint32(at), opcode(message[0])
	number, known := n.common[id]
	if fromServer && op == create && (!known || n.gone[id]) {
		number, known = uint32(len(n.ids)), true
		n.common[id], n.ids = number, append(n.ids, id)
		delete(n.gone, id)
	}
	if fromServer && op == remove && known {
		n.gone[id] = true
	}
	if !known {
		number = id | unknownEntity
	}
	be.PutUint32(at, number)
}

// FromCommon implements registry.Numbers.
func (n *numbers) FromCommon(message []byte) bool {
	at := entityOf(message)
	if at == nil {
		return true
	}
	number := be.Uint32(at)
	switch {
	case number&unknownEntity != 0:
		be.PutUint32(at, number&^unknownEntity)
	case int(number) >= len(n.ids):
		return false
	default:
		be.PutUint32(at, n.ids[number])
	}
	return true
}
