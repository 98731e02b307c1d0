package enet

import (
	"encoding/binary"
	"hash/crc32"

	"tidegate/codec"
)

var be = binary.BigEndian

// Sizes and special values. docs/protocols/enet.md#datagram
const (
	headerLen      = 2
	timeLen        = 2
	checksumLen    = 4
	commandLen     = 4
	ackLen         = commandLen + 4
	noPeer         = 0xfff // receiver's ID in a datagram to a peer with a still unknown ID
	maxID          = 0xeff // greatest of our own IDs, so that only a Connect begins with the byte 0x8f
	controlChannel = 0xff
	compressedBit  = 0x40 // of a datagram's first byte
)

// header begins each datagram:
//
//	0..1  bit 15 a time follows, bit 14 compressed, bits 13-12 session, bits 11-0 the receiver's ID
//	2..3  the sender's clock in ms, modulo 2^16, if bit 15 is set
//
// If the two hosts use checksums, 4 bytes of checksum follow.
type header struct {
	peer       uint16
	session    uint8
	compressed bool
	timed      bool
	time       uint16
}

func (h *header) parse(d []byte) (rest []byte, err error) {
	if len(d) < headerLen || len(d) > codec.MaxDatagram {
		return nil, codec.ErrMalformed
	}
	first := be.Uint16(d)
	h.timed, h.compressed = first&0x8000 != 0, first&(compressedBit<<8) != 0
	h.session, h.peer = uint8(first>>12&3), first&0xfff
	d = d[headerLen:]
	if !h.timed {
		return d, nil
	}
	if len(d) < timeLen {
		return nil, codec.ErrMalformed
	}
	h.time = be.Uint16(d)
	return d[timeLen:], nil
}

func (h *header) append(b []byte) []byte {
	first := uint16(h.session)<<12 | h.peer
	if h.timed {
		return be.AppendUint16(be.AppendUint16(b, first|0x8000), h.time)
	}
	return be.AppendUint16(b, first)
}

// checksum returns the CRC-32 of a datagram with its checksum field at the given place. In the sum connectID replaces
// the field; nil means 4 zero bytes, as in a datagram to a peer without an ID.
func checksum(d []byte, at int, connectID []byte) uint32 {
	if connectID == nil {
		connectID = noConnectID
	}
	sum := crc32.ChecksumIEEE(d[:at])
	sum = crc32.Update(sum, crc32.IEEETable, connectID)
	return crc32.Update(sum, crc32.IEEETable, d[at+checksumLen:])
}

var noConnectID = make([]byte, 4)

func checksumFits(d []byte, at int, connectID []byte) bool {
	return len(d) >= at+checksumLen && be.Uint32(d[at:]) == checksum(d, at, connectID)
}

// kind is a command's number.
type kind uint8

// The commands. docs/protocols/enet.md#commands
const (
	kindAck kind = iota + 1
	kindConnect
	kindVerify
	kindDisconnect
	kindPing
	kindReliable
	kindUnreliable
	kindFragment
	kindUnsequenced
	kindBandwidth
	kindThrottle
	kindUnreliableFragment
	kindCount
)

// bodyLen is the size of each command's fixed fields after its header.
var bodyLen = [kindCount]int{
	kindAck: 4, kindConnect: connectLen, kindVerify: verifyLen, kindDisconnect: 4, kindReliable: 2, kindUnreliable: 4,
	kindFragment: fragmentLen, kindUnsequenced: 4, kindBandwidth: 8, kindThrottle: 12, kindUnreliableFragment: fragmentLen,
}

// command is one command of a datagram:
//
//	0     bits 0-3 kind, bit 6 unsequenced, bit 7 the sender wants an acknowledgement
//	1     channel
//	2..3  reliable number
//	4..   the kind's fixed fields; the last two bytes are the payload's size if the kind has one
type command struct {
	kind        kind
	wantsAck    bool
	unsequenced bool
	channel     uint8
	seq         uint16
	body        []byte // the fixed fields, part of the datagram
	payload     []byte // part of the datagram
}

func (c *command) parse(b []byte) (rest []byte, err error) {
	if len(b) < commandLen {
		return nil, codec.ErrMalformed
	}
	c.kind, c.wantsAck, c.unsequenced = kind(b[0]&0x0f), b[0]&0x80 != 0, b[0]&0x40 != 0
	c.channel, c.seq = b[1], be.Uint16(b[2:])
	if c.kind == 0 || c.kind >= kindCount {
		return nil, codec.ErrMalformed
	}
	b = b[commandLen:]
	n := bodyLen[c.kind]
	if len(b) < n {
		return nil, codec.ErrMalformed
	}
	c.body, c.payload, b = b[:n], nil, b[n:]
	size := 0
	switch c.kind {
	case kindReliable:
		size = int(be.Uint16(c.body))
	case kindUnreliable, kindUnsequenced, kindFragment, kindUnreliableFragment:
		size = int(be.Uint16(c.body[2:]))
	}
	if len(b) < size {
		return nil, codec.ErrMalformed
	}
	c.payload = b[:size]
	return b[size:], nil
}

// appendCommand appends a command's header.
func appendCommand(b []byte, k kind, flags, channel uint8, seq uint16) []byte {
	return be.AppendUint16(append(b, uint8(k)|flags, channel), seq)
}

// Flags of appendCommand.
const (
	flagAck         = 0x80
	flagUnsequenced = 0x40
)

// fragment is the body of a fragment:
//
//	0..1    number of the first fragment: reliable, or unreliable for kindUnreliableFragment
//	2..3    size of this fragment's payload
//	4..7    count of fragments
//	8..11   index of this one
//	12..15  bytes of the whole message
//	16..19  offset of this fragment in it
type fragment struct {
	start                       uint16
	count, index, total, offset uint32
	unit                        uint32 // not on the wire: see unitOf
}

const fragmentLen = 20

// parse reads a fragment's body. It checks the size of the payload against the message of the fragment.
func (f *fragment) parse(body []byte, payload int) error {
	f.start = be.Uint16(body)
	f.count, f.index = be.Uint32(body[4:]), be.Uint32(body[8:])
	f.total, f.offset = be.Uint32(body[12:]), be.Uint32(body[16:])
	switch {
	case f.count == 0 || f.index >= f.count || f.total < f.count || payload == 0:
		return codec.ErrMalformed
	case f.offset > f.total || uint32(payload) > f.total-f.offset:
		return codec.ErrMalformed
	}
	if f.unit = f.unitOf(payload); f.unit == 0 { // such parts could claim more bytes than they bring
		return codec.ErrMalformed
	}
	return nil
}

// unitOf returns the size of all fragments of the message but the last. All known libraries cut a message into equal
// pieces. So each piece tells their size, and two messages with one unit agree on the place of each piece. It returns 0
// if the fragment is no such piece.
func (f *fragment) unitOf(size int) uint32 {
	unit := uint32(size)
	if f.index > 0 {
		unit = f.offset / f.index
	}
	isLast := f.index == f.count-1
	switch {
	case unit == 0 || f.offset != f.index*unit,
		!isLast && uint32(size) != unit,
		isLast && uint32(size) != f.total-f.offset,
		uint64(f.count-1)*uint64(unit) >= uint64(f.total), uint64(f.count)*uint64(unit) < uint64(f.total):
		return 0
	}
	return unit
}

func (f *fragment) append(b []byte, payload int) []byte {
	b = be.AppendUint16(be.AppendUint16(b, f.start), uint16(payload))
	b = be.AppendUint32(be.AppendUint32(b, f.count), f.index)
	return be.AppendUint32(be.AppendUint32(b, f.total), f.offset)
}

// fragmentRoom returns the number of bytes of a message in one fragment. It is also the size of the largest message
// without fragments.
func fragmentRoom(mtu int, summed bool) int {
	room := mtu - headerLen - timeLen - commandLen - fragmentLen
	if summed {
		room -= checksumLen
	}
	return room
}
