package raknet

import (
	"encoding/binary"

	"tidegate/internal/siphash"
)

// cookieHash is the hash of shared cookies. Up to 7 bytes, enough for an IPv4 address, it is SipHash-2-4 (Aumasson and
// Bernstein, 2012). For longer input CloudburstMC's library mixes each whole word of 8 bytes into v3 after the rounds
// instead of before. cookieHash does the same, so that it agrees with that library about an IPv6 address.
func cookieHash(k0, k1 uint64, b []byte) uint64 {
	s := siphash.New(k0, k1)
	last := uint64(len(b)) << 56
	for ; len(b) >= 8; b = b[8:] {
		word := binary.LittleEndian.Uint64(b)
		s.Rounds(2)
		s[0] ^= word
		s[3] ^= word
	}
	for i, c := range b {
		last |= uint64(c) << (8 * i)
	}
	s.Word(last, 2)
	return s.Sum(4)
}
