package raknet

import (
	"encoding/binary"
	"math/bits"
)

// cookieHash is the hash of shared cookies. Up to 7 bytes, enough for an IPv4 address, it is SipHash-2-4 (Aumasson and
// Bernstein, 2012). For longer input CloudburstMC's library mixes each whole word of 8 bytes into v3 after the rounds
// instead of before. cookieHash does the same, so that it agrees with that library about an IPv6 address.
func cookieHash(k0, k1 uint64, b []byte) uint64 {
	s := sipState{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573}
	last := uint64(len(b)) << 56
	for ; len(b) >= 8; b = b[8:] {
		word := binary.LittleEndian.Uint64(b)
		s.rounds(2)
		s[0] ^= word
		s[3] ^= word
	}
	for i, c := range b {
		last |= uint64(c) << (8 * i)
	}
	s[3] ^= last
	s.rounds(2)
	s[0] ^= last
	s[2] ^= 0xff
	s.rounds(4)
	return s[0] ^ s[1] ^ s[2] ^ s[3]
}

type sipState [4]uint64

func (s *sipState) rounds(n int) {
	for range n {
		s[0] += s[1]
		s[1] = bits.RotateLeft64(s[1], 13) ^ s[0]
		s[0] = bits.RotateLeft64(s[0], 32)
		s[2] += s[3]
		s[3] = bits.RotateLeft64(s[3], 16) ^ s[2]
		s[0] += s[3]
		s[3] = bits.RotateLeft64(s[3], 21) ^ s[0]
		s[2] += s[1]
		s[1] = bits.RotateLeft64(s[1], 17) ^ s[2]
		s[2] = bits.RotateLeft64(s[2], 32)
	}
}
