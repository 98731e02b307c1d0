package siphash

import (
	"encoding/binary"
	"testing"
)

// TestVector is the example of the paper's appendix: SipHash-2-4 of the bytes 0 to 14, with the key 0 to 15.
func TestVector(t *testing.T) {
	var b [16]byte
	for i := range b {
		b[i] = byte(i)
	}
	s := New(binary.LittleEndian.Uint64(b[:8]), binary.LittleEndian.Uint64(b[8:]))
	s.Word(binary.LittleEndian.Uint64(b[:8]), 2)
	b[15] = 15 // the length
	s.Word(binary.LittleEndian.Uint64(b[8:]), 2)
	if got := s.Sum(4); got != 0xa129ca6149be45e5 {
		t.Errorf("%#x", got)
	}
}
