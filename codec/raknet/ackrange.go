package raknet

import (
	"encoding/binary"
	"fmt"

	"tidegate/codec"
)

var errAcks = fmt.Errorf("raknet: invalid list of acknowledgements: %w", codec.ErrMalformed)

// ackRange is a run of datagram numbers, both ends included. On the wire it never spans the wrap-around.
type ackRange struct{ first, last Seq24 }

// wraps reports whether the range passes from the highest number to 0.
func (r ackRange) wraps() bool { return uint32(r.last) < uint32(r.first) }

// ackReader reads the body of an ACK or NACK (docs/protocols/raknet.md#acknowledgements):
//
//	0..1    count of records, big-endian
//	..      records: 1, number; or 0, first, last; numbers of 3 bytes, little-endian
//
// A range may hold numbers that were never sent. A loop over it must first intersect it with the sent numbers.
type ackReader struct {
	left    int
	records []byte
}

const (
	singleRecord = 1
	rangeRecord  = 0

	singleRecordSize = 1 + 3
	rangeRecordSize  = 1 + 3 + 3
)

// parse checks the whole list, so that a malformed one has no effect.
func (r *ackReader) parse(body []byte) error {
	if len(body) < 2 {
		return errAcks
	}
	check := ackReader{left: int(binary.BigEndian.Uint16(body)), records: body[2:]}
	*r = check
	for check.left > 0 {
		if !check.complete() {
			return errAcks
		}
		if got, _ := check.next(); got.wraps() {
			return errAcks
		}
	}
	return nil
}

// next returns the next range of a list that parse has accepted, or false after the last.
func (r *ackReader) next() (got ackRange, ok bool) {
	if r.left == 0 {
		return ackRange{}, false
	}
	r.left--
	first := seq24(r.records[1:])
	if r.records[0] != rangeRecord {
		r.records = r.records[singleRecordSize:]
		return ackRange{first, first}, true
	}
	last := seq24(r.records[singleRecordSize:])
	r.records = r.records[rangeRecordSize:]
	return ackRange{first, last}, true
}

// complete reports whether the next record is complete.
func (r *ackReader) complete() bool {
	if len(r.records) < singleRecordSize {
		return false
	}
	return r.records[0] != rangeRecord || len(r.records) >= rangeRecordSize
}

// ackWriter writes one ACK or NACK into a datagram of limited size.
type ackWriter struct {
	b       []byte
	start   int // start of the datagram in b
	limit   int // limit of the datagram's size
	records uint16
}

// beginAcks starts a datagram of the kind at the end of b, at most limit bytes long. add and end must follow.
func beginAcks(b []byte, kind datagramKind, limit int) ackWriter {
	bits := byte(bitValid | bitNACK)
	if kind == ackDatagram {
		bits = bitValid | bitACK
	}
	return ackWriter{b: append(b, bits, 0, 0), start: len(b), limit: limit}
}

// add writes a range, or reports that the datagram has no room for it. Stock readers reject a list with a range that
// ends below its start. A range across the wrap-around therefore becomes two records.
func (w *ackWriter) add(r ackRange) bool {
	if r.wraps() {
		if w.room() < 2*rangeRecordSize {
			return false
		}
		return w.add(ackRange{r.first, seq24Mask}) && w.add(ackRange{0, r.last})
	}
	if r.first == r.last {
		if w.room() < singleRecordSize {
			return false
		}
		w.b = appendSeq24(append(w.b, singleRecord), r.first)
	} else {
		if w.room() < rangeRecordSize {
			return false
		}
		w.b = appendSeq24(append(w.b, rangeRecord), r.first)
		w.b = appendSeq24(w.b, r.last)
	}
	w.records++
	return true
}

func (w *ackWriter) room() int { return w.limit - (len(w.b) - w.start) }

// end completes the datagram. It returns the slice given to beginAcks, followed by the datagram.
func (w *ackWriter) end() []byte {
	binary.BigEndian.PutUint16(w.b[w.start+1:], w.records)
	return w.b
}
