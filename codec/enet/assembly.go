package enet

import "tidegate/codec"

// assembly is a message with missing fragments. It takes the memory of the whole message.
type assembly struct {
	payload []byte
	has     []uint64 // one bit for each fragment that has arrived
	count   uint32
	left    uint32
	// reliable and start identify an unreliable message: the channel's reliable number and its own.
	reliable, start uint16
	isNext          bool // it began when it was the next message
}

func newAssembly(f *fragment, reliable uint16) *assembly {
	return &assembly{
		payload: make([]byte, f.total), has: make([]uint64, (f.count+63)/64),
		count: f.count, left: f.count, reliable: reliable, start: f.start,
	}
}

// assemblyOverhead is the memory of an assembly in bytes, without its payload and bits.
const assemblyOverhead = 96

// held returns the memory in bytes of an assembly with the given size and number of fragments.
func held(total, count uint32) int { return int(total) + int(count+63)/64*8 + assemblyOverhead }

func (a *assembly) size() int { return held(uint32(len(a.payload)), a.count) }

// add stores a fragment.
func (a *assembly) add(f *fragment, payload []byte) error {
	if f.count != a.count || int(f.total) != len(a.payload) {
		return codec.ErrMalformed
	}
	word, mask := &a.has[f.index/64], uint64(1)<<(f.index%64)
	if *word&mask != 0 {
		return codec.ErrDuplicate
	}
	*word |= mask
	a.left--
	copy(a.payload[f.offset:], payload)
	return nil
}
