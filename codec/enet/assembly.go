package enet

import (
	"bytes"
	"slices"
	"time"

	"tidegate/codec"
)

// assembly is a message with missing fragments. It takes the memory of the whole message.
type assembly struct {
	payload []byte
	has     []uint64 // one bit for each fragment that has arrived
	count   uint32
	left    uint32
	unit    uint32 // bytes of each fragment but the last; 0: not known
	// reliable and start identify an unreliable message: the channel's reliable number and its own.
	reliable, start uint16
	isNext          bool          // it began when it was the next message
	fedAt           time.Duration // when the latest fragment arrived
}

func newAssembly(f *fragment, reliable uint16) *assembly {
	return &assembly{
		payload: make([]byte, f.total), has: make([]uint64, (f.count+63)/64),
		count: f.count, left: f.count, unit: f.unit, reliable: reliable, start: f.start,
	}
}

// assemblyOverhead is the memory of an assembly in bytes, without its payload and bits.
const assemblyOverhead = 96

// held returns the memory in bytes of an assembly with the given size and number of fragments.
func held(total, count uint32) int { return int(total) + int(count+63)/64*8 + assemblyOverhead }

func (a *assembly) size() int { return held(uint32(len(a.payload)), a.count) }

// fits reports whether a fragment may be part of the message.
func (a *assembly) fits(f *fragment) bool {
	return f.count == a.count && int(f.total) == len(a.payload) && f.unit == a.unit
}

func (a *assembly) hasPart(index uint32) bool { return a.has[index/64]>>(index%64)&1 != 0 }

// part returns a fragment of a message with a known unit.
func (a *assembly) part(index uint32) []byte {
	return a.payload[index*a.unit : min((index+1)*a.unit, uint32(len(a.payload)))]
}

// put stores a fragment that fits, also in the place of another one.
func (a *assembly) put(f *fragment, payload []byte) {
	if !a.hasPart(f.index) {
		a.left--
	}
	a.has[f.index/64] |= 1 << (f.index % 64)
	copy(a.payload[f.offset:], payload)
}

// add stores a fragment of an unreliable message.
func (a *assembly) add(f *fragment, payload []byte) error {
	switch {
	case !a.fits(f):
		return codec.ErrMalformed
	case a.hasPart(f.index):
		return codec.ErrDuplicate
	}
	a.put(f, payload)
	return nil
}

// clone returns a copy of the assembly.
func (a *assembly) clone() *assembly {
	b := *a
	b.payload, b.has = bytes.Clone(a.payload), slices.Clone(a.has)
	return &b
}
