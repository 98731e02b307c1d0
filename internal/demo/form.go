package demo

import (
	"encoding/binary"

	"tidegate/codec"
	"tidegate/proxy/bridge"
)

// packetByte is the first byte of a game's messages on RakNet; the next one up marks those without an ID. It is the
// packet_id of a route unless that says otherwise.
const packetByte = 0x86

// updateHead is the size of what R-Type writes before the data of an update, createSize that of a creation.
const (
	updateHead = 7
	createSize = 5
)

// form is how the probes of a game look in the messages of its protocol: in the envelope of a route to a protocol
// with message IDs. A protocol whose messages are payloads alone has an envelope only towards such a protocol.
// docs/bridging.md#envelopes
//
// R-Type carries its own instructions only, so that a probe is an update: 3, entity u32, component u16, probe;
// big-endian. The entity is the one that the server has created: a proxy that wants proof of an address takes updates of
// no other. Where one side speaks R-Type the probes of the other are R-Type's updates too, or
// keys and their answers (keys.go).
type form struct {
	wrapping bridge.Wrapping
	world    bool   // the rest is R-Type's
	keys     bool   // and its players press keys
	entity   uint32 // that the server has created, as its player knows it
	idless   bool   // no message ID crosses between the two protocols
}

// formOf is the form of a pair on the side of protocol p.
func formOf(pair Pair, p codec.Protocol) form {
	f := form{world: pair.inWorld(), keys: pair.pressesKeys()}
	options := bridge.Options{PacketID: packetByte}
	if pair.isFramed() {
		options.Envelope = bridge.EnvelopeFramed
	}
	spec, other := p.Spec(), pair.other(p).Spec()
	f.idless = isPlain(spec) && other.IDs != codec.IDBeside || isPlain(other) && spec.IDs != codec.IDBeside
	switch {
	case spec.Closed:
	case isPlain(spec):
		f.wrapping = bridge.WrappingOf(spec, other, &options)
	default:
		f.wrapping = bridge.WrappingOf(spec, &codec.Spec{IDs: codec.IDBeside}, &options)
	}
	return f
}

// isPlain reports whether a protocol's messages are payloads and nothing else.
func isPlain(s *codec.Spec) bool { return s.IDs == codec.IDNowhere && !s.Joins && !s.Closed }

// R-Type's instructions, as in docs/protocols/rtype.md#messages.
const (
	opCreate    = 0x00
	opUpdate    = 0x03
	opAnnounced = 0xf0
)

// greetings are what a server of R-Type's world says to a newcomer: in the early format of the game and entities of
// 16 bits, there is one component, Probe, and an entity.
var greetings = [][]byte{
	{opAnnounced, 1, 2, 0, 1, 5, 'P', 'r', 'o', 'b', 'e', 0xff, 0xff},
	{opCreate, 0, 0, 0, 0},
}

// message is a probe, ready to be sent. Its body is made in b's memory.
func (f form) message(b []byte, p *probe, mode codec.Mode) codec.Message {
	switch b = b[:0]; {
	case f.keys:
		b = append(b, p.key())
	case f.world:
		b = p.append(appendUpdate(b, f.entity))
	default:
		b = p.append(b)
	}
	return f.wrap(b, p.id(), mode)
}

func (f form) wrap(body []byte, id uint16, mode codec.Mode) codec.Message {
	return f.wrapping.Wrap(nil, codec.Message{Payload: body, ID: id, Mode: mode})
}

// appendUpdate appends an update without its data.
func appendUpdate(b []byte, entity uint32) []byte {
	return append(binary.BigEndian.AppendUint32(append(b, opUpdate), entity), 0, 0)
}

// greeting is one of greetings, ready to be sent.
func (f form) greeting(text []byte, mode codec.Mode) codec.Message { return f.wrap(text, 0, mode) }

// probes gives each probe in a message to take, with the ID that it came by, and skips greetings. It fails where
// something else is in the message.
func (f form) probes(m *codec.Message, take func(id uint16, body []byte)) error {
	var changed error
	err := f.wrapping.Unwrap(*m, func(one codec.Message) {
		id := one.ID
		if f.idless {
			id = idOf(one.Payload)
		}
		if err := f.probe(id, one.Payload, take); err != nil {
			changed = err
		}
	})
	if err != nil {
		return errChanged
	}
	return changed
}

// learn notes the entity that a message of the server creates, if it does.
func (f *form) learn(m *codec.Message) {
	if !f.world {
		return
	}
	_ = f.wrapping.Unwrap(*m, func(one codec.Message) { // what is changed, probes finds out
		if b := one.Payload; len(b) == createSize && b[0] == opCreate {
			f.entity = binary.BigEndian.Uint32(b[1:])
		}
	})
}

// probe takes a probe out of its message.
func (f form) probe(id uint16, b []byte, take func(id uint16, body []byte)) error {
	switch {
	case !f.world, f.keys && len(b) == 1:
		take(id, b)
	case len(b) > 0 && (b[0] == opAnnounced || b[0] == opCreate):
	case len(b) >= updateHead && b[0] == opUpdate:
		entity, data := binary.BigEndian.Uint16(b[3:]), b[updateHead:]
		if !f.keys {
			entity = idOf(data)
		}
		take(entity, data)
	default:
		return errChanged
	}
	return nil
}
