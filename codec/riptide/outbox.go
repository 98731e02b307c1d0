package riptide

import "encoding/binary"

// outbox is a first-in first-out log of datagrams that wait for Transmit. A record is two bytes of length and the
// datagram, or reference and the sequence number of a message in the flight.
type outbox struct {
	log  []byte
	read int
}

const (
	lengthSize = 2
	reference  = 0xffff
)

// bytes returns the number of bytes that the outbox holds.
func (o *outbox) bytes() int { return len(o.log) - o.read }

// begin opens a record. The caller appends one datagram to the result and passes that to end.
func (o *outbox) begin() []byte {
	if o.read >= o.bytes() { // reclaim read bytes; this moves no more bytes than it reclaims
		o.log, o.read = append(o.log[:0], o.log[o.read:]...), 0
	}
	return append(o.log, 0, 0)
}

// end closes the record that begin opened.
func (o *outbox) end(b []byte) {
	start := len(o.log)
	binary.LittleEndian.PutUint16(b[start:], uint16(len(b)-start-lengthSize))
	o.log = b
}

// refer queues a transmission of the message in flight with sequence number s.
func (o *outbox) refer(s seq) {
	b := o.begin()
	b = binary.LittleEndian.AppendUint16(b, uint16(s))
	binary.LittleEndian.PutUint16(b[len(b)-2*lengthSize:], reference)
	o.log = b
}

// next takes the oldest record: a datagram, lent until the next begin, or a sequence number if datagram is nil.
func (o *outbox) next() (datagram []byte, s seq, ok bool) {
	if o.bytes() == 0 {
		return nil, 0, false
	}
	n := int(binary.LittleEndian.Uint16(o.log[o.read:]))
	at := o.read + lengthSize
	if n == reference {
		o.read = at + lengthSize
		return nil, seq(binary.LittleEndian.Uint16(o.log[at:])), true
	}
	o.read = at + n
	return o.log[at:o.read], 0, true
}

// drop removes all records.
func (o *outbox) drop() { o.log, o.read = o.log[:0], 0 }

// relax frees memory if no record waits.
func (o *outbox) relax() {
	if o.bytes() == 0 {
		*o = outbox{}
	}
}

// bufferSizes are the capacities of buffers. Most game messages are small, and few are full datagrams.
var bufferSizes = [...]int{64, 256, maxMessage}

// maxSpare bounds the bytes of unused buffers that a connection keeps for its next messages.
const maxSpare = 64 << 10

// buffers recycles the memory of one connection's unacknowledged messages. The last returned buffer is taken next.
type buffers struct {
	spare [len(bufferSizes)][][]byte
	bytes int
}

// take returns an empty buffer with room for n bytes. n is at most maxMessage unless Options allow larger messages.
func (p *buffers) take(n int) []byte {
	for class, size := range bufferSizes {
		if n > size {
			continue
		}
		if last := len(p.spare[class]) - 1; last >= 0 {
			b := p.spare[class][last]
			p.spare[class] = p.spare[class][:last]
			p.bytes -= size
			return b[:0]
		}
		return make([]byte, 0, size)
	}
	return make([]byte, 0, n)
}

// put takes b back, or leaves it to the garbage collector if there are enough spares.
func (p *buffers) put(b []byte) {
	for class, size := range bufferSizes {
		if cap(b) == size && p.bytes+size <= maxSpare {
			p.spare[class] = append(p.spare[class], b)
			p.bytes += size
			return
		}
	}
}

// relax frees all spares.
func (p *buffers) relax() { *p = buffers{} }
