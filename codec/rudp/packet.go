package rudp

import (
	"encoding/binary"
	"hash/crc32"

	"tidegate/codec"
)

var be = binary.BigEndian

// Sizes of a packet. docs/protocols/rudp.md#packet
const (
	headerLen   = 12
	checksumLen = 4
	overhead    = headerLen + checksumLen
)

// kind is a packet's type.
type kind uint16

// The types of packets. docs/protocols/rudp.md#packet
const (
	kindRequest kind = iota
	kindAccept
	kindRefuse
	kindNotify // the sender has ended the session
	kindKeepAlive
	kindData
	kindCount
)

// packet is what one datagram carries, all fields big-endian:
//
//	0..1    application ID
//	2..3    sequence number
//	4..9    acknowledgement, see acks
//	10..11  type
//	12..    data
//	last 4  CRC-32 (IEEE) of everything before it
type packet struct {
	app  uint16
	seq  seq
	acks acks
	kind kind
	data []byte // part of the datagram it was parsed from
}

// parse reads a datagram. The checksum comes first: nothing else of a datagram that fails it is looked at. A Data
// packet without data, which real peers do not survive in all forms, and a type that does not exist are malformed.
func (p *packet) parse(d []byte) error {
	if len(d) < overhead || len(d) > codec.MaxDatagram {
		return codec.ErrMalformed
	}
	body := d[:len(d)-checksumLen]
	if be.Uint32(d[len(body):]) != crc32.ChecksumIEEE(body) {
		return codec.ErrMalformed
	}
	p.app = be.Uint16(d)
	p.seq = seq(be.Uint16(d[2:]))
	p.acks = acks{last: seq(be.Uint16(d[4:])), bits: be.Uint32(d[6:])}
	p.kind = kind(be.Uint16(d[10:]))
	p.data = body[headerLen:]
	if p.kind >= kindCount || p.kind == kindData && len(p.data) == 0 {
		return codec.ErrMalformed
	}
	return nil
}

// append appends the whole datagram.
func (p *packet) append(b []byte) []byte {
	start := len(b)
	b = be.AppendUint16(b, p.app)
	b = be.AppendUint16(b, uint16(p.seq))
	b = be.AppendUint16(b, uint16(p.acks.last))
	b = be.AppendUint32(b, p.acks.bits)
	b = be.AppendUint16(b, uint16(p.kind))
	b = append(b, p.data...)
	return be.AppendUint32(b, crc32.ChecksumIEEE(b[start:]))
}

// terms is the data of an Accept packet: the rate of packets in Hz, and the protocol's version, which is 0.
type terms struct{ rate, version uint8 }

const termsLen = 2

// parse reads the data of an Accept packet. Real clients die of a rate of 0.
func (t *terms) parse(data []byte) error {
	if len(data) < termsLen || data[0] == 0 {
		return codec.ErrMalformed
	}
	t.rate, t.version = data[0], data[1]
	return nil
}

func (t *terms) append(b []byte) []byte { return append(b, t.rate, t.version) }
