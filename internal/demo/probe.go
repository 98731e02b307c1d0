package demo

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"
)

// errChanged is the error for a message that this client did not send.
var errChanged = errors.New("message changed on its way")

var le = binary.LittleEndian

// probe is the content of a client's message:
//
//	0..7   number, counted separately for reliable and unreliable probes
//	8..15  time of sending, in nanoseconds since the clients' start
//	16..17 client
//	18     1 if it was sent reliably, else 0
//	19..   filler
//	last 4 CRC-32C of the message ID, as 2 bytes, and of all bytes before
//
// all little-endian.
type probe struct {
	number   uint64
	sent     time.Duration
	client   uint16
	reliable bool
}

const (
	probeHeader  = 19
	probeTrailer = 4
	minProbe     = probeHeader + probeTrailer
	maxBody      = maxProbe + updateHead
	maxProbe     = 1000 // fits into R-Type's datagrams of 1024 bytes with an update's head
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// id returns the probe's message ID. Over time a client uses all IDs.
func (p *probe) id() uint16 { return uint16(p.number*257) ^ p.client }

// size returns the probe's length in bytes. It varies; most probes are short, as a game's messages are.
func (p *probe) size() int {
	if n := int(p.number); n%8 == 0 {
		return minProbe + n*37%(maxProbe-minProbe+1)
	}
	return minProbe + int(p.number)*7%256
}

// append appends the probe to b.
func (p *probe) append(b []byte) []byte {
	start := len(b)
	b = le.AppendUint64(b, p.number)
	b = le.AppendUint64(b, uint64(p.sent))
	b = le.AppendUint16(b, p.client)
	kind := byte(0)
	if p.reliable {
		kind = 1
	}
	b = append(b, kind)
	for i := range p.size() - minProbe {
		b = append(b, byte(i)+byte(p.number))
	}
	return le.AppendUint32(b, checksum(p.id(), b[start:]))
}

// idOf returns the message ID of the probe in b, for protocols without message IDs; 0 if b is too short for a probe.
func idOf(b []byte) uint16 {
	if len(b) < minProbe {
		return 0
	}
	p := probe{number: le.Uint64(b), client: le.Uint16(b[16:])}
	return p.id()
}

// parse reads a probe from a message with an ID.
func (p *probe) parse(id uint16, b []byte) error {
	if len(b) < minProbe {
		return errChanged
	}
	body := b[:len(b)-probeTrailer]
	*p = probe{
		number:   le.Uint64(b),
		sent:     time.Duration(le.Uint64(b[8:])),
		client:   le.Uint16(b[16:]),
		reliable: b[18] == 1,
	}
	if id != p.id() || len(b) != p.size() || checksum(id, body) != le.Uint32(b[len(body):]) {
		return errChanged
	}
	return nil
}

func checksum(id uint16, body []byte) uint32 {
	var b [2]byte
	le.PutUint16(b[:], id)
	return crc32.Update(crc32.Checksum(b[:], castagnoli), castagnoli, body)
}
