// Package siphash has the parts of SipHash (Aumasson and Bernstein, 2012), a hash with a key. Its users choose the
// numbers of rounds, and one of them the order of steps that a game's library has.
package siphash

import "math/bits"

// State is the state of a hash.
type State [4]uint64

// New returns the state of an empty input.
func New(k0, k1 uint64) State {
	return State{k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573}
}

// Word takes 8 bytes of the input with a number of rounds. The last word has the input's length in its highest byte.
func (s *State) Word(w uint64, rounds int) {
	s[3] ^= w
	s.Rounds(rounds)
	s[0] ^= w
}

// Sum ends the hash with a number of rounds.
func (s *State) Sum(rounds int) uint64 {
	s[2] ^= 0xff
	s.Rounds(rounds)
	return s[0] ^ s[1] ^ s[2] ^ s[3]
}

// Rounds mixes the state.
func (s *State) Rounds(n int) {
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
