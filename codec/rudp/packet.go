package rudp

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"

	"tidegate/codec"
	"tidegate/codec/explain"
	"tidegate/internal/words"
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

// packet is the content of one datagram. All fields are big-endian:
//
//	0..1    application ID
//	2..3    sequence number
//	4..9    acknowledgement, see acks
//	10..11  type
//	12..    data
//	last 4  CRC-32 (IEEE) of all bytes before it
type packet struct {
	app  uint16
	seq  seq
	acks acks
	kind kind
	data []byte // part of the parsed datagram
}

// parse reads a datagram. It checks the checksum first, and reads nothing else if that is wrong. A Data packet without
// data is malformed, because it can crash real peers. An unknown type is malformed too.
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

// terms is the data of an Accept packet: the packet rate in Hz, and the protocol's version, which is 0.
type terms struct{ rate, version uint8 }

const termsLen = 2

// parse reads the data of an Accept packet. It refuses a rate of 0, which crashes real clients.
func (t *terms) parse(data []byte) error {
	if len(data) < termsLen || data[0] == 0 {
		return codec.ErrMalformed
	}
	t.rate, t.version = data[0], data[1]
	return nil
}

func (t *terms) append(b []byte) []byte { return append(b, t.rate, t.version) }

// seq is the 16-bit sequence number of a packet. It wraps; only its methods compare it.
type seq uint16

// minus returns how far s is ahead of t on the circle of 2^16 numbers; it is negative if s is behind.
func (s seq) minus(t seq) int { return int(int16(s - t)) }

// ackReach is the number of packets before the last that an acknowledgement covers.
const ackReach = 32

// acks records the packets that a side has received from the other, in memory as on the wire.
// docs/protocols/rudp.md#acks
type acks struct {
	last seq    `cbor:"7,keyasint"`           // newest received
	bits uint32 `cbor:"8,keyasint,omitempty"` // the most significant bit is last-1, the least significant last-32
}

// add records s, which is newer than the last.
func (a *acks) add(s seq) {
	if gap := s.minus(a.last); gap <= ackReach {
		a.bits = a.bits>>gap | 1<<(ackReach-gap)
	} else {
		a.bits = 0
	}
	a.last = s
}

// has reports whether packet s, which is not newer than the last, was received.
func (a *acks) has(s seq) bool {
	back := a.last.minus(s)
	return back == 0 || back <= ackReach && a.bits&(1<<(ackReach-back)) != 0
}

var kindNames = [kindCount]string{
	"connection request", "connection accept", "connection refuse", "disconnection notify", "keep alive", "data",
}

// Explain explains datagrams and their data. Those of both sides have the same layout. Errors wrap
// codec.ErrMalformed, also for a wrong checksum. Real peers can send a datagram that no peer can receive, if their game
// asks for it. Only its length shows it.
func (*Protocol) Explain(*explain.Memory) explain.Conversation { return describe }

func describe(_ bool, datagram []byte) (text string, content []string, err error) {
	if len(datagram) > codec.MaxDatagram {
		return fmt.Sprintf("%d bytes, more than any peer receives: lost", len(datagram)), nil, nil
	}
	var p packet
	if err := p.parse(datagram); err != nil {
		return "", nil, err
	}
	text = fmt.Sprintf("%s #%d, application %d, acknowledges %s, checksum good",
		kindNames[p.kind], p.seq, p.app, p.acks.describe())
	switch {
	case p.kind == kindAccept:
		var t terms
		if err := t.parse(p.data); err != nil {
			return "", nil, err
		}
		content = []string{fmt.Sprintf("%s a second, version %d", words.Count(int(t.rate), "packet"), t.version)}
	case len(p.data) > 0:
		content = []string{fmt.Sprintf("%s: %.16x", words.Count(len(p.data), "byte"), p.data)}
	}
	return text, content, nil
}

// describe lists the packet numbers that an acknowledgement covers, newest first.
func (a *acks) describe() string {
	var text strings.Builder
	fmt.Fprintf(&text, "#%d", a.last)
	for back := seq(1); back <= ackReach; back++ {
		if !a.has(a.last - back) {
			continue
		}
		first := back
		for back < ackReach && a.has(a.last-back-1) {
			back++
		}
		fmt.Fprintf(&text, ", #%d", a.last-first)
		if back > first {
			fmt.Fprintf(&text, "-#%d", a.last-back)
		}
	}
	return text.String()
}
