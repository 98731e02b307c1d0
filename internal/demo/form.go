package demo

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"

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
// other.
// If one side speaks R-Type, the other side's probes are R-Type's updates too.
type form struct {
	wrapping bridge.Wrapping
	world    bool   // messages are R-Type's
	entity   uint32 // created by the server, as the client knows it
	idless   bool   // no message ID crosses between the two protocols
}

// formOf returns the form of a pair on the side of protocol p.
func formOf(pair Pair, p codec.Protocol) form {
	f := form{world: pair.inWorld()}
	options := bridge.Options{PacketID: packetByte}
	if pair.from.Spec().Joins || pair.to.Spec().Joins { // joined messages need frames
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
	b = b[:0]
	if f.world {
		b = append(binary.BigEndian.AppendUint32(append(b, opUpdate), f.entity), 0, 0)
	}
	return f.wrap(p.append(b), p.id(), mode)
}

func (f form) wrap(body []byte, id uint16, mode codec.Mode) codec.Message {
	return f.wrapping.Wrap(nil, codec.Message{Payload: body, ID: id, Mode: mode})
}

// greet gives send the messages that describe the world to a new client, if there is one.
func (f form) greet(mode codec.Mode, send func(codec.Message)) {
	if !f.world {
		return
	}
	for _, text := range greetings {
		send(f.wrap(text, 0, mode))
	}
}

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
	case !f.world:
		take(id, b)
	case len(b) > 0 && (b[0] == opAnnounced || b[0] == opCreate):
	case len(b) >= updateHead && b[0] == opUpdate:
		data := b[updateHead:]
		take(idOf(data), data)
	default:
		return errChanged
	}
	return nil
}

// errChanged is the error for a message that this client did not send.
var errChanged = errors.New("message changed on its way")

var le = binary.LittleEndian

// probe is the content of a client's message:
//
//	0..7   number, counted separately for reliable and unreliable probes
//	8..15  time of sending, in nanoseconds since the clients' start
//	16..17 client
//	18     1 if it was sent reliably, else 0
//	19..   filler
//	last 4 CRC-32C of the message ID, as 2 bytes, and of all bytes before
//
// all little-endian.
type probe struct {
	number   uint64
	sent     time.Duration
	client   uint16
	reliable bool
}

const (
	probeHeader  = 19
	probeTrailer = 4
	minProbe     = probeHeader + probeTrailer
	maxBody      = maxProbe + updateHead
	maxProbe     = 1000 // fits into R-Type's datagrams of 1024 bytes with an update's head
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// id returns the probe's message ID. Over time a client uses all IDs.
func (p *probe) id() uint16 { return uint16(p.number*257) ^ p.client }

// size returns the probe's length in bytes. It varies; most probes are short, as a game's messages are.
func (p *probe) size() int {
	if n := int(p.number); n%8 == 0 {
		return minProbe + n*37%(maxProbe-minProbe+1)
	}
	return minProbe + int(p.number)*7%256
}

// append appends the probe to b.
func (p *probe) append(b []byte) []byte {
	start := len(b)
	b = le.AppendUint64(b, p.number)
	b = le.AppendUint64(b, uint64(p.sent))
	b = le.AppendUint16(b, p.client)
	kind := byte(0)
	if p.reliable {
		kind = 1
	}
	b = append(b, kind)
	for i := range p.size() - minProbe {
		b = append(b, byte(i)+byte(p.number))
	}
	return le.AppendUint32(b, checksum(p.id(), b[start:]))
}

// idOf returns the message ID of the probe in b, for protocols without message IDs; 0 if b is too short for a probe.
func idOf(b []byte) uint16 {
	if len(b) < minProbe {
		return 0
	}
	p := probe{number: le.Uint64(b), client: le.Uint16(b[16:])}
	return p.id()
}

// parse reads a probe from a message with an ID.
func (p *probe) parse(id uint16, b []byte) error {
	if len(b) < minProbe {
		return errChanged
	}
	body := b[:len(b)-probeTrailer]
	*p = probe{
		number:   le.Uint64(b),
		sent:     time.Duration(le.Uint64(b[8:])),
		client:   le.Uint16(b[16:]),
		reliable: b[18] == 1,
	}
	if id != p.id() || len(b) != p.size() || checksum(id, body) != le.Uint32(b[len(body):]) {
		return errChanged
	}
	return nil
}

func checksum(id uint16, body []byte) uint32 {
	var b [2]byte
	le.PutUint16(b[:], id)
	return crc32.Update(crc32.Checksum(b[:], castagnoli), castagnoli, body)
}
