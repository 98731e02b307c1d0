package decode

import (
	"encoding/binary"

	"tidegate/codec"
)

// framer cuts one direction of a stream into messages. Before each message comes its length, a little-endian number of
// prefix bytes. An impossible length ends the recognition of messages. A protocol without streams has the prefix 0,
// and no messages are recognized.
type framer struct {
	prefix int
	rest   []byte // incomplete message
	broken bool
}

// add takes the next bytes. The caller calls next until there is no message before it adds more, so that little is
// kept.
func (f *framer) add(b []byte) {
	if f.broken || f.prefix == 0 {
		f.rest, f.broken = nil, true
		return
	}
	f.rest = append(f.rest, b...)
}

// next returns the next complete message.
func (f *framer) next() (message []byte, ok bool) {
	if f.broken || len(f.rest) < f.prefix {
		return nil, false
	}
	length := int(binary.LittleEndian.Uint16(f.rest))
	if f.prefix == 4 {
		length = int(int32(binary.LittleEndian.Uint32(f.rest)))
	}
	if length < 1 || length > codec.MaxDatagram {
		f.rest, f.broken = nil, true
		return nil, false
	}
	if len(f.rest) < f.prefix+length {
		return nil, false
	}
	message = f.rest[f.prefix : f.prefix+length]
	f.rest = f.rest[f.prefix+length:]
	return message, true
}
