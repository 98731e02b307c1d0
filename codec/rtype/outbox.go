package rtype

import "encoding/binary"

// outbox is a first-in first-out log of wire messages that wait for Transmit. A record is two bytes of length and the
// message. The top bit of the length says that the message has to end its datagram.
type outbox struct {
	log  []byte
	read int
}

const (
	recordHead = 2
	last       = 1 << 15
)

// bytes returns the number of bytes that the outbox holds.
func (o *outbox) bytes() int { return len(o.log) - o.read }

// begin opens a record. The caller appends one message to the result and passes that to end.
func (o *outbox) begin() []byte {
	if o.read >= o.bytes() { // reclaim read bytes; this moves no more bytes than it reclaims
		o.log, o.read = append(o.log[:0], o.log[o.read:]...), 0
	}
	return append(o.log, 0, 0)
}

// end closes the record that begin opened.
func (o *outbox) end(b []byte, isLast bool) {
	start := len(o.log)
	head := uint16(len(b) - start - recordHead)
	if isLast {
		head |= last
	}
	binary.LittleEndian.PutUint16(b[start:], head)
	o.log = b
}

// next appends the oldest message to b, and the following ones that fit in the same datagram. A message that has to
// end its datagram is the last.
func (o *outbox) next(b []byte) ([]byte, bool) {
	size := 0
	for o.bytes() > 0 {
		head := binary.LittleEndian.Uint16(o.log[o.read:])
		n := int(head &^ last)
		if size > 0 && size+n > maxDatagram {
			break
		}
		b = append(b, o.log[o.read+recordHead:][:n]...)
		o.read += recordHead + n
		if size += n; head&last != 0 {
			break
		}
	}
	return b, size > 0
}

// drop removes all records.
func (o *outbox) drop() { o.log, o.read = o.log[:0], 0 }
