package netio

import "encoding/binary"

// Prefix is the format of the length before each frame of a stream.
type Prefix uint8

// The prefixes.
const (
	LengthU16LE Prefix = iota // 2 bytes, little-endian: Riptide 2.0
	LengthI32LE               // 4 bytes, little-endian and signed: Riptide 2.1 and later
)

// PrefixOf returns the prefix with a size in bytes, 2 or 4.
func PrefixOf(size int) Prefix {
	if size == LengthI32LE.size() {
		return LengthI32LE
	}
	return LengthU16LE
}

// size returns the prefix's own length in bytes.
func (p Prefix) size() int {
	if p == LengthI32LE {
		return 4
	}
	return 2
}

// Append appends the prefix of a frame of n bytes.
func (p Prefix) Append(b []byte, n int) []byte {
	if p == LengthI32LE {
		return binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return binary.LittleEndian.AppendUint16(b, uint16(n))
}

// framing is the format of a stream's frames, which have 1 to max bytes.
type framing struct {
	prefix Prefix
	max    int
}

// cut returns the first frame of b and the bytes after it. A nil frame without an error is incomplete.
func (f framing) cut(b []byte) (frame, rest []byte, err error) {
	head := f.prefix.size()
	if len(b) < head {
		return nil, b, nil
	}
	n := int(binary.LittleEndian.Uint16(b))
	if f.prefix == LengthI32LE {
		n = int(int32(binary.LittleEndian.Uint32(b)))
	}
	if n < 1 || n > f.max {
		return nil, nil, ErrFrame
	}
	if len(b) < head+n {
		return nil, b, nil
	}
	end := head + n
	return b[head:end:end], b[end:], nil
}

// fits reports whether a frame of n bytes can be sent.
func (f framing) fits(n int) bool { return n > 0 && n <= MaxDatagram }

// append appends a frame with its prefix.
func (f framing) append(b, frame []byte) []byte {
	return append(f.prefix.Append(b, len(frame)), frame...)
}
