package demo

import (
	"encoding/binary"

	"tidegate/codec"
	"tidegate/internal/policy"
	"tidegate/proxy/bridge"
)

// packetByte is the first byte of a game's messages on RakNet; the next value marks messages without an ID. It is the
// default of a route's packet_id.
const packetByte = 0x86

// updateHead is the number of bytes before the data of an R-Type update. createSize is the size of a creation.
const (
	updateHead = 7
	createSize = 5
)

// form describes probes as messages of a protocol: in the envelope of a route to a protocol with message IDs. A
// protocol whose messages are only payloads has an envelope only towards such a protocol. docs/bridging.md#envelopes
//
// R-Type carries only its own instructions, so a probe is an update: 3, entity u32, component u16, probe; big-endian.
// The entity is the one that the server has created: a proxy that requires a proof of address accepts updates of no
// other. If one side speaks R-Type, the other side's probes are R-Type's updates too, or keys and their answers
// (keys.go).
type form struct {
	wrapping bridge.Wrapping
	world    bool   // messages are R-Type's
	keys     bool   // clients press keys
	entity   uint32 // created by the server, as the client knows it
	idless   bool   // no message ID crosses between the two protocols
}

// formOf returns the form of a pair on the side of protocol p.
func formOf(pair Pair, p codec.Protocol) form {
	f := form{world: pair.inWorld(), keys: pair.pressesKeys()}
	options := bridge.Options{PacketID: packetByte}
	if pair.isFramed() {
		options.Envelope = policy.EnvelopeFramed
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

// isPlain reports whether a protocol's messages are only payloads.
func isPlain(s *codec.Spec) bool { return s.IDs == codec.IDNowhere && !s.Joins && !s.Closed }

// R-Type's instructions, as in docs/protocols/rtype/messages.md.
const (
	opCreate    = 0x00
	opUpdate    = 0x03
	opAnnounced = 0xf0
)

// greetings are the messages of a server of R-Type's world to a new client, in the game's early format with entities
// of 16 bits: a component named Probe, and an entity.
var greetings = [][]byte{
	{opAnnounced, 1, 2, 0, 1, 5, 'P', 'r', 'o', 'b', 'e', 0xff, 0xff},
	{opCreate, 0, 0, 0, 0},
}

// message returns the message of a probe. Its body uses the memory of b.
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

// greeting returns the message of one of the greetings.
func (f form) greeting(text []byte, mode codec.Mode) codec.Message { return f.wrap(text, 0, mode) }

// probes gives each probe in a message to take, with its ID, and skips greetings. It returns an error for other
// content.
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

// learn stores the entity that a message of the server creates.
func (f *form) learn(m *codec.Message) {
	if !f.world {
		return
	}
	_ = f.wrapping.Unwrap(*m, func(one codec.Message) { // probes finds changed messages
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
