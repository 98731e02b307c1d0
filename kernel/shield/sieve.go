package shield

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
)

// Sieve is what a classic filter knows of clients, for GuardPlainly: a set of 8,192 bits, one for each client. It takes some
// strangers for known, one of 16 with 500 clients. All other strangers pass by chance.
type Sieve struct {
	seed   uint32
	leaves [sieveLeaves]uint32
	one    uint32 // of so many strangers passes
}

// sieveLeaves is how many words of 32 bits a Sieve has. It is code, which may be 4,096 instructions long, and 20 KiB in all
// on older kernels.
const (
	sieveLeaves = 256
	leafShift   = 32 - 8
)

// sieveMixer mixes what a client's bit is found by.
const sieveMixer = 0x9e3779b1

// NewSieve makes a Sieve that knows nobody and lets one of so many strangers pass, at least 1.
func NewSieve(one int) *Sieve { return &Sieve{seed: rand.Uint32(), one: uint32(max(one, 1))} }

// Know has a client's datagrams pass.
func (s *Sieve) Know(client netip.AddrPort) {
	h := s.hash(client)
	s.leaves[h>>leafShift] |= 1 << (h & 31)
}

// knows reports whether a client's datagrams pass for sure.
func (s *Sieve) knows(client netip.AddrPort) bool {
	h := s.hash(client)
	return s.leaves[h>>leafShift]>>(h&31)&1 == 1
}

// hash is as the filter makes it, of the address's words and the port.
func (s *Sieve) hash(client netip.AddrPort) uint32 {
	h := s.seed
	ip := client.Addr().Unmap()
	for b := ip.AsSlice(); len(b) > 0; b = b[4:] {
		h = (h ^ binary.BigEndian.Uint32(b)) * sieveMixer
	}
	h = (h ^ uint32(client.Port())) * sieveMixer
	return (h ^ h>>15) * sieveMixer
}
