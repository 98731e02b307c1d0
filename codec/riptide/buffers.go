package riptide

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
