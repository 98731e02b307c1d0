package demo

import (
	"encoding/binary"

	"tidegate/codec"
)

// packetByte is the first byte of a game's messages on RakNet; the next one up marks those without an ID. It is the
// packet_id of a route unless that says otherwise.
const packetByte = 0x86

// Sizes of what is written before a probe.
const (
	lengthSize = 2
	idSize     = 2
	updateHead = 7 // of R-Type's update
)

// form is how the probes of a game look in the messages of its protocol. docs/bridging.md#envelopes
//
//	Riptide           the ID beside it, the probe
//	RakNet            packet byte, [length u16,] ID u16, probe
//	RUDP              length u16, ID u16, probe; and the next
//	R-Type's world    an update: 3, entity u32, component u16, probe; big-endian, the ID is the entity
//
// Lengths, of all that follows in their frame, and IDs are little-endian. Where one side speaks R-Type the probes of the
// other are R-Type's updates too, or keys and their answers (keys.go).
type form struct {
	beside bool // the protocol has IDs of its own
	packet bool // messages begin with a packet byte
	id     bool // then an ID
	framed bool // each with a length before it
	world  bool // the rest is R-Type's
	keys   bool // and its players press keys
}

// formOf is the form of a pair on the side of protocol p.
func formOf(pair Pair, p codec.Protocol) form {
	spec := p.Spec()
	packet := spec.IDs == codec.IDFirstByte
	return form{
		beside: spec.IDs == codec.IDBeside,
		packet: packet,
		id:     packet || spec.Joins,
		framed: pair.isFramed() && (packet || spec.Joins),
		world:  pair.inWorld(),
		keys:   pair.pressesKeys(),
	}
}

// R-Type's instructions, as in docs/protocols/rtype.md#messages.
const (
	opCreate    = 0x00
	opUpdate    = 0x03
	opAnnounced = 0xf0
)

// greetings are what a server of R-Type's world says to a newcomer: in the early format of the game and entities of 16
// bits, there is one component, Probe, and an entity.
var greetings = [][]byte{
	{opAnnounced, 1, 2, 0, 1, 5, 'P', 'r', 'o', 'b', 'e', 0xff, 0xff},
	{opCreate, 0, 0, 0, 0},
}

// message is a probe, ready to be sent. Its payload is made in b's memory.
func (f form) message(b []byte, p *probe, mode codec.Mode) codec.Message {
	b, frame := f.head(b[:0], p.id())
	switch {
	case f.keys:
		b = append(b, p.key())
	case f.world:
		b = p.append(appendUpdate(b, p.id()))
	default:
		b = p.append(b)
	}
	return f.finish(b, frame, p.id(), mode)
}

// appendUpdate appends an update without its data.
func appendUpdate(b []byte, entity uint16) []byte {
	return append(b, opUpdate, 0, 0, byte(entity>>8), byte(entity), 0, 0)
}

// greeting is one of greetings, ready to be sent.
func (f form) greeting(text []byte, mode codec.Mode) codec.Message {
	b, frame := f.head(nil, 0)
	return f.finish(append(b, text...), frame, 0, mode)
}

// head appends what comes before the body, and returns where the frame begins.
func (f form) head(b []byte, id uint16) (_ []byte, frame int) {
	if f.packet {
		b = append(b, packetByte)
	}
	frame = len(b)
	if f.framed {
		b = le.AppendUint16(b, 0)
	}
	if f.id {
		b = le.AppendUint16(b, id)
	}
	return b, frame
}

func (f form) finish(b []byte, frame int, id uint16, mode codec.Mode) codec.Message {
	if f.framed {
		le.PutUint16(b[frame:], uint16(len(b)-frame-lengthSize))
	}
	return codec.Message{Payload: b, Mode: mode, ID: id, HasID: f.beside}
}

// probes gives each probe in a message to take, with the ID that it came by, and skips greetings. It fails where
// something else is in the message.
func (f form) probes(m *codec.Message, take func(id uint16, body []byte)) error {
	b, hasID := m.Payload, f.id
	if f.packet {
		if len(b) == 0 || b[0] != packetByte && b[0] != packetByte+1 {
			return errChanged
		}
		hasID, b = b[0] == packetByte, b[1:]
	}
	for first := true; first || len(b) > 0; first = false {
		one, rest, err := f.frame(b)
		if err != nil {
			return err
		}
		if err := f.probe(m.ID, one, hasID, take); err != nil {
			return err
		}
		b = rest
	}
	return nil
}

// frame takes the first frame off b, which without frames is one.
func (f form) frame(b []byte) (one, rest []byte, err error) {
	if !f.framed {
		return b, nil, nil
	}
	if len(b) < lengthSize || len(b)-lengthSize < int(le.Uint16(b)) {
		return nil, nil, errChanged
	}
	end := lengthSize + int(le.Uint16(b))
	return b[lengthSize:end], b[end:], nil
}

// probe takes a probe out of its frame.
func (f form) probe(id uint16, b []byte, hasID bool, take func(id uint16, body []byte)) error {
	if hasID {
		if len(b) < idSize {
			return errChanged
		}
		id, b = le.Uint16(b), b[idSize:]
	}
	switch {
	case !f.world, f.keys && len(b) == 1:
		take(id, b)
	case len(b) > 0 && (b[0] == opAnnounced || b[0] == opCreate):
	case len(b) >= updateHead && b[0] == opUpdate:
		take(binary.BigEndian.Uint16(b[3:]), b[updateHead:])
	default:
		return errChanged
	}
	return nil
}
