package raknet

import "math/bits"

// Buffers are kept for use again in classes of powers of two from 64 bytes to 64 KiB, and at most keptBytes of them.
const (
	leastClass = 6
	mostClass  = 16
	keptBytes  = 256 << 10
)

// buffers recycles the memory of messages that wait: to be acknowledged, for the other parts, for their turn. Each
// connection has its own, so nothing is shared and nothing is locked; an idle one gives it all back.
type buffers struct {
	free *[mostClass - leastClass + 1][][]byte
	kept int
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

// put gives a buffer from get back.
func (f *buffers) put(b []byte) {
	class := classOf(cap(b))
	if class > mostClass || cap(b) != 1<<class || f.kept+cap(b) > keptBytes {
		return
	}
	if f.free == nil {
		f.free = new([mostClass - leastClass + 1][][]byte)
	}
	f.free[class-leastClass] = append(f.free[class-leastClass], b[:0])
	f.kept += cap(b)
}

// release lets go of all that is kept.
func (f *buffers) release() { *f = buffers{} }

// classOf is the binary logarithm of the least class with room for n bytes.
func classOf(n int) int { return max(leastClass, bits.Len(uint(max(n, 1)-1))) }
