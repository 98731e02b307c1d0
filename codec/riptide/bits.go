package riptide

import "encoding/binary"

// A message of Riptide 2.1+ is a string of bits, least significant first, that begins with a type of 4 bits. Every
// field that this package reads lies on whole bytes counted from there. A datagram is therefore a nibble and a body.
// Byte i of the body is the high nibble of the datagram's byte i and the low nibble of its byte i+1. The high nibble
// of the last byte is left over: the end of an odd bit string, or padding. See docs/protocols/riptide.md#bits.

// bodyLen returns the number of whole bytes in the body of datagram d, which is not empty.
func bodyLen(d []byte) int { return len(d) - 1 }

// bodyByte returns byte i of d's body.
func bodyByte(d []byte, i int) byte { return d[i]>>4 | d[i+1]<<4 }

// bodyUint16 returns the little-endian number at byte i of d's body.
func bodyUint16(d []byte, i int) uint16 {
	return uint16(bodyByte(d, i)) | uint16(bodyByte(d, i+1))<<8
}

// appendBody appends d's body from byte i on to b. A leftover nibble that is not zero becomes one more byte with a pad
// of 4 bits. A zero nibble is padding. appendDatagram of the result gives the same bits again.
func appendBody(b, d []byte, i int) (out []byte, pad uint8) {
	d = d[i:]
	n := len(d) - 1
	start := len(b)
	b = append(b, d[:n]...)
	out = b[start:]
	k := 0
	for ; k+8 <= n; k += 8 {
		x := binary.LittleEndian.Uint64(d[k:])>>4 | uint64(d[k+8])<<60
		binary.LittleEndian.PutUint64(out[k:], x)
	}
	for ; k < n; k++ {
		out[k] = d[k]>>4 | d[k+1]<<4
	}
	if rest := d[n] >> 4; rest != 0 {
		return append(b, rest), 4
	}
	return b, 0
}

// appendDatagram appends a datagram of type k. Its body is head and then payload without the last pad bits.
func appendDatagram(b []byte, k kind, head, payload []byte, pad uint8) []byte {
	b, carry := appendShifted(b, byte(k), head)
	if len(payload) == 0 {
		return append(b, carry)
	}
	pad &= 7
	last := len(payload) - 1
	b, carry = appendShifted(b, carry, payload[:last])
	x := payload[last] << pad >> pad
	b = append(b, carry|x<<4)
	if pad < 4 {
		b = append(b, x>>4)
	}
	return b
}

// datagramLen returns the length of appendDatagram's datagram.
func datagramLen(head, payload int, pad uint8) int {
	if payload > 0 && pad&7 >= 4 {
		return head + payload
	}
	return head + payload + 1
}

// appendShifted appends p shifted up by a nibble. carry becomes the low nibble of the first byte. It returns the
// leftover nibble.
func appendShifted(b []byte, carry byte, p []byte) ([]byte, byte) {
	start := len(b)
	b = append(b, p...)
	out := b[start:]
	k := 0
	for ; k+8 <= len(p); k += 8 {
		x := binary.LittleEndian.Uint64(p[k:])
		binary.LittleEndian.PutUint64(out[k:], x<<4|uint64(carry))
		carry = byte(x >> 60)
	}
	for ; k < len(p); k++ {
		out[k] = carry | p[k]<<4
		carry = p[k] >> 4
	}
	return b, carry
}

// appendVarint appends v in groups of 7 bits, low group first. The high bit of a byte says that more bytes follow.
func appendVarint(b []byte, v uint16) []byte { return binary.AppendUvarint(b, uint64(v)) }

// bodyVarint reads a VarULong at byte i of d's body. It returns the low 16 bits, as the library does, and the place
// after the number. It reports false if the body ends first or the number has more than 64 bits.
func bodyVarint(d []byte, i int) (v uint16, next int, ok bool) {
	for n := range binary.MaxVarintLen64 {
		if i >= bodyLen(d) {
			return 0, 0, false
		}
		x := bodyByte(d, i)
		i++
		if n < 3 {
			v |= uint16(x&0x7f) << (7 * n)
		}
		if x < 0x80 {
			return v, i, true
		}
	}
	return 0, 0, false
}
