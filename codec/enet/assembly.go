package enet

import (
	"bytes"
	"slices"
	"time"

	"tidegate/codec"
)

// assembly is a message with missing fragments. It takes the memory of the whole message.
type assembly struct {
	Payload []byte   `cbor:"1,keyasint"`
	Has     []uint64 `cbor:"2,keyasint"` // one bit for each fragment that has arrived
	Count   uint32   `cbor:"3,keyasint"`
	// Reliable and Start identify an unreliable message: the channel's reliable number and its own.
	Reliable uint16 `cbor:"4,keyasint,omitempty"`
	Start    uint16 `cbor:"5,keyasint,omitempty"`
	IsNext   bool   `cbor:"6,keyasint,omitempty"` // it began when it was the next message
	Unit     uint32 `cbor:"7,keyasint,omitempty"` // bytes of each fragment but the last; 0: not known
	left     uint32
	fedAt    time.Duration // when the latest fragment arrived
}

func newAssembly(f *fragment, reliable uint16) *assembly {
	return &assembly{
		Payload: make([]byte, f.total), Has: make([]uint64, (f.count+63)/64),
		Count: f.count, left: f.count, Unit: f.unit, Reliable: reliable, Start: f.start,
	}
}

// assemblyOverhead is the memory of an assembly in bytes, without its payload and bits.
const assemblyOverhead = 96

// held returns the memory in bytes of an assembly with the given size and number of fragments.
func held(total, count uint32) int { return int(total) + int(count+63)/64*8 + assemblyOverhead }

func (a *assembly) size() int { return held(uint32(len(a.Payload)), a.Count) }

// fits reports whether a fragment may be part of the message.
func (a *assembly) fits(f *fragment) bool {
	return f.count == a.Count && int(f.total) == len(a.Payload) && f.unit == a.Unit
}

func (a *assembly) hasPart(index uint32) bool { return a.Has[index/64]>>(index%64)&1 != 0 }

// part returns a fragment of a message with a known unit.
func (a *assembly) part(index uint32) []byte {
	return a.Payload[index*a.Unit : min((index+1)*a.Unit, uint32(len(a.Payload)))]
}

// put stores a fragment that fits, also in the place of another one.
func (a *assembly) put(f *fragment, payload []byte) {
	if !a.hasPart(f.index) {
		a.left--
	}
	a.Has[f.index/64] |= 1 << (f.index % 64)
	copy(a.Payload[f.offset:], payload)
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
	b.Payload, b.Has = bytes.Clone(a.Payload), slices.Clone(a.Has)
	return &b
}
