package rtype

import "encoding/binary"

// outbox is a first-in first-out log of wire messages that wait for Transmit. A record is two bytes of length, of which
// the top bit says that the message has to end its datagram, and the message.
type outbox struct {
	log  []byte
	read int
}

const (
	recordHead = 2
	last       = 1 << 15
)

// bytes is how much the outbox holds.
func (o *outbox) bytes() int { return len(o.log) - o.read }

// begin opens a record. The caller appends one message to what it returns and gives that to end.
func (o *outbox) begin() []byte {
	if o.read >= o.bytes() { // reclaim what was read, at the cost of moving no more than that
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

// next appends the oldest message to b, and those after it too that fit a datagram with it, up to one that has to end
// it.
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

// drop forgets everything.
func (o *outbox) drop() { o.log, o.read = o.log[:0], 0 }
