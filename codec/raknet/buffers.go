package raknet

import (
	"math/bits"

	"tidegate/codec/internal/events"
)

// Buffers are kept for reuse in classes of powers of two from 64 bytes to 64 KiB: at most keptBytes of them, and
// keptMessages records.
const (
	leastClass   = 6
	mostClass    = 16
	keptBytes    = 1 << 20
	keptMessages = 4096
)

// buffers recycles the memory of messages that wait to be acknowledged, for further parts, or for their turn. The
// connections of a loop share it. So its size follows the total under way, and a returned buffer is still in the
// processor's cache at its next use. It has no lock.
type buffers struct {
	free    *[mostClass - leastClass + 1][][]byte
	kept    int
	records []*outgoing
	ready   []inbound   // of the datagram in hand, in the order of delivery to the application
	events  events.Pool // of all connections
}

// record returns an empty record of a message.
func (f *buffers) record() *outgoing {
	last := len(f.records) - 1
	if last < 0 {
		return new(outgoing)
	}
	m := f.records[last]
	f.records = f.records[:last]
	return m
}

// putRecord returns a record and its payload.
func (f *buffers) putRecord(m *outgoing) {
	f.put(m.Payload)
	*m = outgoing{}
	if len(f.records) < keptMessages {
		f.records = append(f.records, m)
	}
}

// copy returns a copy of p in recycled memory.
func (f *buffers) copy(p []byte) []byte { return append(f.get(len(p)), p...) }

// get returns an empty buffer with room for n bytes.
func (f *buffers) get(n int) []byte {
	class := classOf(n)
	if class > mostClass {
		return make([]byte, 0, n)
	}
	if f.free != nil {
		list := &f.free[class-leastClass]
		if last := len(*list) - 1; last >= 0 {
			b := (*list)[last]
			*list = (*list)[:last]
			f.kept -= cap(b)
			return b
		}
	}
	return make([]byte, 0, 1<<class)
}

// put returns a buffer from get.
func (f *buffers) put(b []byte) {
	class := classOf(cap(b))
	if b == nil || class > mostClass || cap(b) != 1<<class || f.kept+cap(b) > keptBytes {
		return
	}
	if f.free == nil {
		f.free = new([mostClass - leastClass + 1][][]byte)
	}
	f.free[class-leastClass] = append(f.free[class-leastClass], b[:0])
	f.kept += cap(b)
}

// classOf returns the binary logarithm of the smallest class with room for n bytes.
func classOf(n int) int { return max(leastClass, bits.Len(uint(max(n, 1)-1))) }
