package raknet

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

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

var errCapsule = fmt.Errorf("raknet: invalid capsule: %w", codec.ErrMalformed)

const (
	bitSplit = 0x10 // in a capsule's first byte

	// maxChannels is the number of ordering channels.
	maxChannels = 32
	// maxCapsuleHeaderSize is the longest header: reliable sequenced and split. Senders always reserve room for it.
	maxCapsuleHeaderSize = 1 + 2 + 3 + 3 + 4 + splitHeaderSize
	splitHeaderSize      = 4 + 2 + 4
)

// modes are the delivery modes of the reliabilities on the wire. The last three ask for receipts, which concern only
// the sender. Stock RakNet writes them as 0, 2 and 3. Others write them unchanged, with the fields of 0, 2 and 3.
var modes = [8]codec.Mode{
	codec.Unreliable, codec.UnreliableSequenced, codec.Reliable, codec.ReliableOrdered, codec.ReliableSequenced,
	codec.Unreliable, codec.Reliable, codec.ReliableOrdered,
}

// reliabilities is the inverse of modes.
var reliabilities = [5]byte{
	codec.Unreliable: 0, codec.UnreliableSequenced: 1, codec.Reliable: 2, codec.ReliableOrdered: 3,
	codec.ReliableSequenced: 4,
}

// capsule is one message, or one part of a split message, in a datagram (docs/protocols/raknet.md#capsules). All
// fields are big-endian except the three indexes:
//
//	0       reliability in the top three bits, split in bit 4
//	1..2    length in bits, not 0
//	..      reliable index, 3 bytes little-endian: reliable modes
//	..      sequencing index, 3 bytes little-endian: sequenced modes
//	..      ordering index, 3 bytes little-endian, and channel: ordered and sequenced modes
//	..      count of parts, 4 bytes; split ID, 2 bytes; index of this part, 4 bytes: split ones
//	..      payload in whole bytes; the low bits of the last are unused if the length is no multiple of 8
type capsule struct {
	mode       codec.Mode `cbor:"2,keyasint"`
	channel    uint8      `cbor:"3,keyasint,omitempty"`
	pad        uint8      // unused low bits of the payload's last byte
	reliable   Seq24
	sequence   Seq24 `cbor:"5,keyasint,omitempty"`
	order      Seq24 `cbor:"4,keyasint,omitempty"`
	split      bool
	splitID    uint16 `cbor:"1,keyasint"`
	splitCount uint32
	splitIndex uint32
	payload    []byte // aliases the datagram; at most 8191 bytes

	print uint32 // of its content, once a receiver has judged it
}

// parse reads the first capsule of b and returns the rest of b. After an error the rest of the datagram is void.
func (c *capsule) parse(b []byte) (rest []byte, err error) {
	if len(b) < 3 {
		return nil, errCapsule
	}
	*c = capsule{mode: modes[b[0]>>5], split: b[0]&bitSplit != 0}
	bits := int(binary.BigEndian.Uint16(b[1:]))
	size := (bits + 7) / 8
	if b = b[3:]; bits == 0 || len(b) < c.size()-3+size {
		return nil, errCapsule
	}
	b, err = c.parseIndexes(b)
	if err != nil {
		return nil, err
	}
	c.pad = uint8(size*8 - bits)
	c.payload = b[:size:size]
	return b[size:], nil
}

// parseIndexes reads the fields between length and payload. The caller has checked that they are complete.
func (c *capsule) parseIndexes(b []byte) (payload []byte, err error) {
	if c.mode.IsReliable() {
		c.reliable, b = seq24(b), b[3:]
	}
	if isSequenced(c.mode) {
		c.sequence, b = seq24(b), b[3:]
	}
	if hasChannel(c.mode) {
		c.order, c.channel, b = seq24(b), b[3], b[4:]
		if c.channel >= maxChannels {
			return nil, errCapsule
		}
	}
	if c.split {
		c.splitCount, c.splitID = binary.BigEndian.Uint32(b), binary.BigEndian.Uint16(b[4:])
		c.splitIndex, b = binary.BigEndian.Uint32(b[6:]), b[splitHeaderSize:]
		if c.splitIndex >= c.splitCount {
			return nil, errCapsule
		}
	}
	return b, nil
}

func (c *capsule) append(b []byte) []byte {
	first := reliabilities[c.mode] << 5
	if c.split {
		first |= bitSplit
	}
	b = append(b, first)
	b = binary.BigEndian.AppendUint16(b, uint16(len(c.payload)*8-int(c.pad)))
	if c.mode.IsReliable() {
		b = appendSeq24(b, c.reliable)
	}
	if isSequenced(c.mode) {
		b = appendSeq24(b, c.sequence)
	}
	if hasChannel(c.mode) {
		b = append(appendSeq24(b, c.order), c.channel)
	}
	if c.split {
		b = binary.BigEndian.AppendUint32(b, c.splitCount)
		b = binary.BigEndian.AppendUint16(b, c.splitID)
		b = binary.BigEndian.AppendUint32(b, c.splitIndex)
	}
	return append(b, c.payload...)
}

// size returns the length of the capsule with its payload, in bytes.
func (c *capsule) size() int {
	n := 3 + len(c.payload)
	if c.mode.IsReliable() {
		n += 3
	}
	if isSequenced(c.mode) {
		n += 3
	}
	if hasChannel(c.mode) {
		n += 4
	}
	if c.split {
		n += splitHeaderSize
	}
	return n
}

// isPadding reports whether the rest of a datagram's body holds no capsule: it is too short for one, or all zeros.
func isPadding(b []byte) bool {
	return len(b) < 4 || !slices.ContainsFunc(b, func(v byte) bool { return v != 0 })
}

func isSequenced(m codec.Mode) bool {
	return m == codec.UnreliableSequenced || m == codec.ReliableSequenced
}

// hasChannel reports whether messages of the mode name an ordering channel.
func hasChannel(m codec.Mode) bool { return isSequenced(m) || m == codec.ReliableOrdered }

// Busy returns for how long a server that has sent a datagram may still be reading what waits for it. Libraries answer
// messages and strangers' requests while they read, and acknowledge afterwards.
func Busy(datagram []byte) time.Duration {
	switch {
	case len(datagram) == 0 || datagram[0]&(bitValid|bitACK|bitNACK) == bitValid:
		return time.Second / 2
	case datagram[0]&bitValid == 0:
		return 36 * time.Millisecond // requests are read fast, and a join has no more than two
	}
	return 0
}
