package codectest

import (
	"bytes"
	"encoding/binary"
)

// A test payload is Config.Prefix and then
//
//	0..3   mark of the direction, the index and the size
//	4..7   index of the message in its direction, big-endian
//	8..11  size of the whole payload, big-endian
//	12..   filler that depends on the index
//
// The layout lets the suite recognize a message, cut it out of joined ones, and compare it byte by byte.
const payloadHeader = 12

// smallest returns the size of the shortest payload that can be recognized and padded.
func (c *Config) smallest() int { return len(c.Prefix) + payloadHeader + 1 }

// appendPayload appends the test payload of the given size, with pad unused bits. size is at least smallest.
func (c *Config) appendPayload(b []byte, direction, index uint32, size int, pad uint8) []byte {
	start := len(b)
	b = append(b, c.Prefix...)
	b = binary.BigEndian.AppendUint32(b, mark(direction, index, uint32(size)))
	b = binary.BigEndian.AppendUint32(b, index)
	b = binary.BigEndian.AppendUint32(b, uint32(size))
	return c.appendFiller(b, index, size-(len(b)-start), pad)
}

// appendFiller appends n bytes that depend on the index, the last with pad unused bits.
func (c *Config) appendFiller(b []byte, index uint32, n int, pad uint8) []byte {
	for i := range n {
		b = append(b, byte(index)*31+byte(i)*7+byte(i>>8))
	}
	if n > 0 {
		b[len(b)-1] = c.lastByte(pad)
	}
	return b
}

// lastByte returns a byte with all bits set except pad unused ones.
func (c *Config) lastByte(pad uint8) byte {
	if c.PadsLow {
		return 0xff << pad
	}
	return 0xff >> pad
}

// parsePayload returns the index and size at the start of a test payload of the given direction.
func (c *Config) parsePayload(b []byte, direction uint32) (index uint32, size int, ok bool) {
	if len(b) < c.smallest() || !bytes.HasPrefix(b, c.Prefix) {
		return 0, 0, false
	}
	b = b[len(c.Prefix):]
	index, length := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	return index, int(length), binary.BigEndian.Uint32(b) == mark(direction, index, length)
}

// mark mixes its arguments so that no payload is taken for another by chance.
func mark(direction, index, size uint32) uint32 {
	return ((direction*0x9e3779b1^index)*0x85ebca6b ^ size) * 0xc2b2ae35
}
