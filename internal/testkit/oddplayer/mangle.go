package oddplayer

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
)

// Riptide changes the form of a datagram of Riptide 2.1 or 2.2: odd ends, types that do not exist or are a server's,
// messages without an ID, IDs longer than they need be. It returns what opens a session as it is.
func Riptide(rng *rand.Rand, datagram []byte) []byte {
	if len(datagram) == 0 {
		return datagram
	}
	b := append(make([]byte, 0, len(datagram)+16), datagram...)
	switch rng.IntN(6) {
	case 0: // the last nibble belongs to no byte
		b[len(b)-1] |= byte(rng.IntN(16)) << 4
	case 1: // company behind the end
		b = append(b, []byte{0, 1, 0x80, 0xff}[:1+rng.IntN(4)]...)
	case 2: // another type: also a server's, or one that does not exist
		b[0] = b[0]&0xf0 | byte(rng.IntN(16))
	case 3: // an unreliable message or notify message that ends early
		b = append(b[:0], byte(rng.IntN(2)*6), 0x08, 0, 0)[:1+rng.IntN(4)]
	case 4: // an ID in more groups than it needs
		b = append(b[:0], 0, 0xf8, 0xff, 0xff, 0x0f, 0x70)
	case 5: // a heartbeat of another length
		b = append(b[:0], 4, 1, 2, 3, 4, 5)[:1+rng.IntN(6)]
	}
	return b
}

// Riptide20 is Riptide for version 2.0, whose types are whole bytes.
func Riptide20(rng *rand.Rand, datagram []byte) []byte {
	if len(datagram) == 0 {
		return datagram
	}
	b := append(make([]byte, 0, len(datagram)+16), datagram...)
	switch rng.IntN(4) {
	case 0:
		b = append(b, []byte{0, 1, 0x80, 0xff}[:1+rng.IntN(4)]...)
	case 1:
		b[0] = byte(rng.IntN(20))
	case 2:
		b = append(b[:0], 0, 7, 0)[:1+rng.IntN(3)]
	case 3:
		b = append(b[:0], 5, 1, 2, 3, 4, 5)[:1+rng.IntN(6)]
	}
	return b
}

// ENet adds an odd command to a datagram of ENet without checksums, or makes one of its commands odd.
func ENet(rng *rand.Rand, datagram []byte) []byte {
	const (
		timed   = 0x80 // in the first byte
		header  = 2
		longest = 1392
	)
	start := header
	if len(datagram) > 0 && datagram[0]&timed != 0 {
		start += 2
	}
	if len(datagram) < start+4 || len(datagram) > longest-64 {
		return datagram
	}
	b := append(make([]byte, 0, len(datagram)+64), datagram...)
	command := func(kind, channel byte, fields ...byte) {
		b = append(append(b, kind, channel, byte(rng.Uint32()), byte(rng.Uint32())), fields...)
	}
	switch rng.IntN(8) {
	case 0: // an unreliable message on an unused channel
		command(7, byte(rng.Uint32()), 0, 1, 0, 1, 7)
	case 1: // an empty message in no order
		command(0x49, 0, byte(rng.Uint32()), byte(rng.Uint32()), 0, 0)
	case 2: // an unreliable message in one fragment
		fields := make([]byte, 0, 32)
		for _, v := range [...]uint32{1, 0, 1, 0} { // count, index, size, offset
			fields = binary.BigEndian.AppendUint32(fields, v)
		}
		command(12, 0, append(append([]byte{byte(rng.Uint32()), byte(rng.Uint32()), 0, 1}, fields...), 7)...)
	case 3: // bandwidth and throttle, wanting no acknowledgement
		command(10, 0xff, 0, 0, 0, byte(rng.IntN(2)), 0, 0, 0, 1)
		command(11, 0xff, make([]byte, 12)...)
	case 4: // an acknowledgement of nothing
		command(1, byte(rng.Uint32()), 0, 0, 0, 0)
	case 5: // a command that does not exist
		command([]byte{0, 13, 14, 15, 0x8d}[rng.IntN(5)], 0, 1, 2, 3, 4)
	case 6: // a server's answer, from a client
		command(3, 0xff, make([]byte, 40)...)
	case 7: // the first command wants no acknowledgement, or has both flags
		b[start] ^= []byte{0x80, 0x40}[rng.IntN(2)]
	}
	return b
}

// RUDP changes the form of a packet, and its checksum: empty data, company of a packet without data, another type, also
// a server's or one that does not exist, acknowledgements of nothing.
func RUDP(rng *rand.Rand, datagram []byte) []byte {
	const header, checksum = 12, 4
	if len(datagram) < header+checksum {
		return datagram
	}
	b := append(make([]byte, 0, len(datagram)+16), datagram[:len(datagram)-checksum]...)
	switch rng.IntN(5) {
	case 0: // no data
		b = b[:header]
	case 1: // keep-alives, goodbyes and messages alike
		b = append(b, []byte{0, 1, 0x80, 0xff}[:1+rng.IntN(4)]...)
	case 2:
		binary.BigEndian.PutUint16(b[10:], []uint16{1, 2, 4, 6, 0xffff}[rng.IntN(5)])
	case 3: // all of the 32 earlier ones, or none
		binary.BigEndian.PutUint32(b[6:], -rng.Uint32N(2))
	case 4: // a message of one byte
		b = append(b[:header], byte(rng.Uint32()))
		binary.BigEndian.PutUint16(b[10:], 5)
	}
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}
