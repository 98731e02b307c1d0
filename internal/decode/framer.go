package decode

import (
	"encoding/binary"

	"github.com/gopacket/gopacket/layers"
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

// tcpSeq is the number of a byte in one direction of a TCP connection. It wraps; compare only with minus.
type tcpSeq uint32

// minus returns how far s is ahead of t; negative if it is behind.
func (s tcpSeq) minus(t tcpSeq) int { return int(int32(s - t)) }

// streams has the number of the next byte for each direction of at most 2*maxFlows TCP connections.
type streams map[string]tcpSeq

// order gives r the new bytes of a segment. It does not reorder: a capture made at one of the ends has the segments in
// order. Missing bytes stay missing.
func (k streams) order(r *record, segment *layers.TCP) {
	way := r.from + " " + r.to
	at := tcpSeq(segment.Seq)
	next, known := k[way]
	if segment.SYN || !known {
		next = at
		if segment.SYN {
			at++
			next++
		}
	}
	data := segment.Payload
	switch ahead := at.minus(next); {
	case ahead > 0:
		r.missing = true
	case -ahead >= len(data):
		data = nil
	default:
		data = data[-ahead:]
	}
	r.data = data
	switch {
	case segment.SYN:
		r.note = "opened"
	case segment.RST:
		r.note = "reset"
	case segment.FIN:
		r.note = "closed"
	case len(data) == 0:
		r.ignored = true
	}
	if known || len(k) < 2*maxFlows {
		k[way] = next + tcpSeq(max(0, at.minus(next)+len(segment.Payload)))
	}
}
