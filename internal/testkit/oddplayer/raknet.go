package oddplayer

import (
	"encoding/binary"
	"math/rand/v2"
)

// RakNet changes the form of a datagram of RakNet's: its capsules get receipts, bits, one part, another channel, or
// company. Only the first capsule changes. It returns other datagrams as they are.
func RakNet(rng *rand.Rand, datagram []byte) []byte {
	const header = 4
	if len(datagram) > 3 && datagram[0]&0x80 != 0 && datagram[0]&0x60 != 0 {
		return acknowledgement(rng, datagram)
	}
	if len(datagram) < header+4 || datagram[0]&0xe0 != 0x80 {
		return datagram // of the handshake
	}
	b := append(make([]byte, 0, len(datagram)+64), datagram...)
	capsule := b[header:]
	switch rng.IntN(6) {
	case 0: // asks for a receipt, as C++ games do
		if r := capsule[0] >> 5; r == 0 || r == 2 || r == 3 {
			capsule[0] = [...]byte{0: 5, 2: 6, 3: 7}[r]<<5 | capsule[0]&0x1f
		}
	case 1: // bits, if it is the only capsule
		if bits := binary.BigEndian.Uint16(capsule[1:]); bits > 8 && endsWith(capsule) {
			binary.BigEndian.PutUint16(capsule[1:], bits-1-uint16(rng.IntN(7)))
		}
	case 2: // low bits of the first byte that mean nothing
		capsule[0] |= byte(rng.IntN(16))
	case 3: // an unreliable split message of one part
		b = appendSplit(b, 1, 0, uint16(rng.Uint32()), []byte{0x86, 1, 0, 7})
	case 4: // an unreliable message with any first byte, also of RakNet's own messages
		b = appendUnreliable(b, []byte{byte(rng.IntN(0x90)), 1, 2, 3, 4, 5, 6, 7, 8}[:1+rng.IntN(9)])
	case 5: // an unreliable message of bits only
		b = append(b, 0, 0, byte(1+rng.IntN(7)), 0x86)
	}
	return b
}

// acknowledgement changes the form of an ACK or NACK: nothing, a range of one, one number twice, company, flags.
func acknowledgement(rng *rand.Rand, datagram []byte) []byte {
	b := append(make([]byte, 0, len(datagram)+16), datagram...)
	count := binary.BigEndian.Uint16(b[1:])
	switch rng.IntN(5) {
	case 0: // no number; the rest comes with the next one
		return append(b[:1], 0, 0)
	case 1: // one more record: a number that is acknowledged again
		b = append(b, 1, 0, 0, 0)
		binary.BigEndian.PutUint16(b[1:], count+1)
	case 2: // the same as a range
		b = append(b, 0, 0, 0, 0, 0, 0, 0)
		binary.BigEndian.PutUint16(b[1:], count+1)
	case 3: // bytes behind the last record
		b = append(b, 0x86, 0xff)
	case 4: // low bits of the first byte that mean nothing here
		b[0] |= byte(rng.IntN(16))
	}
	return b
}

// endsWith reports whether a capsule without split header is all of b.
func endsWith(b []byte) bool {
	head := [8]int{3, 6, 6, 10, 13, 3, 6, 10}[b[0]>>5]
	if b[0]&0x10 != 0 {
		head += 10
	}
	return len(b) == head+int(binary.BigEndian.Uint16(b[1:])+7)/8
}

func appendUnreliable(b, payload []byte) []byte {
	b = binary.BigEndian.AppendUint16(append(b, 0), uint16(len(payload)*8))
	return append(b, payload...)
}

func appendSplit(b []byte, count, index uint32, id uint16, payload []byte) []byte {
	b = binary.BigEndian.AppendUint16(append(b, 0x10), uint16(len(payload)*8))
	b = binary.BigEndian.AppendUint32(b, count)
	b = binary.BigEndian.AppendUint16(b, id)
	b = binary.BigEndian.AppendUint32(b, index)
	return append(b, payload...)
}
