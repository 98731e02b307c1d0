package raknet

import (
	"fmt"

	"tidegate/codec"
)

// Bits of a datagram's first byte (docs/protocols/raknet.md#datagrams).
const (
	bitValid      = 0x80 // always set
	bitACK        = 0x40
	bitNACK       = 0x20 // if bitACK is clear
	bitHasRate    = 0x20 // if bitACK is set: a float32 follows; no default build sets it
	bitContinuous = 0x08 // the sender has more data waiting
	bitNeedsRate  = 0x04 // the sender is in slow start
)

// datagramHeaderSize is the size of the header before the capsules of a data datagram.
const datagramHeaderSize = 4

var errDatagram = fmt.Errorf("raknet: datagram cut short or of no known kind: %w", codec.ErrMalformed)

// datagramKind says which kind of content a connection's datagram carries.
type datagramKind uint8

const (
	dataDatagram datagramKind = iota
	ackDatagram
	nackDatagram
)

// datagram is a datagram of a connection:
//
//	0       bits: valid, ACK, NACK or packet pair, continuous, needs rate
//	1..3    number, little-endian: only of data
//	..      capsules, or the ranges of an ACK or NACK
type datagram struct {
	kind   datagramKind
	number Seq24  // number of a data datagram
	more   bool   // data: the sender has more waiting than it may send now
	rated  bool   // data: the sender has the bit of a slow start
	body   []byte // aliases the datagram
}

func (d *datagram) parse(b []byte) error {
	if len(b) == 0 || b[0]&bitValid == 0 {
		return errDatagram
	}
	switch {
	case b[0]&bitACK != 0:
		rate := 0
		if b[0]&bitHasRate != 0 {
			rate = 4
		}
		if len(b) < 1+rate {
			return errDatagram
		}
		*d = datagram{kind: ackDatagram, body: b[1+rate:]}
	case b[0]&bitNACK != 0:
		*d = datagram{kind: nackDatagram, body: b[1:]}
	default:
		if len(b) < datagramHeaderSize {
			return errDatagram
		}
		*d = datagram{kind: dataDatagram, number: seq24(b[1:]), more: b[0]&bitContinuous != 0,
			rated: b[0]&bitNeedsRate != 0, body: b[datagramHeaderSize:]}
	}
	return nil
}

// appendDataHeader starts a data datagram. It sets both flags like stock RakNet, which ignores them when it receives.
// We acknowledge continuous datagrams sooner.
func appendDataHeader(b []byte, number Seq24, continuous, slowStart bool) []byte {
	bits := byte(bitValid)
	if continuous {
		bits |= bitContinuous
	}
	if slowStart {
		bits |= bitNeedsRate
	}
	return appendSeq24(append(b, bits), number)
}

// seq24 reads a sequence number: three bytes, little-endian.
func seq24(b []byte) Seq24 {
	_ = b[2]
	return Seq24(b[0]) | Seq24(b[1])<<8 | Seq24(b[2])<<16
}

func appendSeq24(b []byte, s Seq24) []byte { return append(b, byte(s), byte(s>>8), byte(s>>16)) }

// Seq24 is one of RakNet's 24-bit counters: datagram, reliable, ordering and sequencing numbers
// (docs/protocols/raknet.md#reliability). It wraps; compare only with its methods.
type Seq24 uint32

const (
	seq24Mask = 1<<24 - 1
	seq24Half = 1 << 23
)

// Add returns the number n steps ahead, or behind if n is negative.
func (s Seq24) Add(n int) Seq24 { return Seq24((int(s) + n) & seq24Mask) }

// Sub returns how many steps s is ahead of t: from -2^23 to 2^23-1, negative if s is behind.
func (s Seq24) Sub(t Seq24) int {
	return (int(s)-int(t)+seq24Half)&seq24Mask - seq24Half
}

// Before reports whether s precedes t, for distances below 2^23.
func (s Seq24) Before(t Seq24) bool { return s.Sub(t) < 0 }
