package shield

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"net/netip"
)

// Sieve is what a classic filter knows of clients, for GuardPlainly: a set of bits, one for each client, which all clients pass.
// It takes some strangers for known: one of 32, or more beyond 256 clients, of 500 one of 16. The others are of classes, and
// those of the class whose turn it is pass. So whoever comes in has the time of a turn for all of it.
type Sieve struct {
	seed    uint32
	leaves  []uint32 // as many as a power of two
	classes uint32   // the same
	turn    uint32
}

// A Sieve's words of 32 bits are code, which may be 4,096 instructions long, and 20 KiB in all on older kernels; and which
// takes the longer to be put before a socket, up to 2 ms, the more there is of it.
const (
	leastLeaves = 8
	mostLeaves  = 256
	mostClasses = 256
	leafBits    = 5 // of a hash say which bit of a leaf is meant; the next ones are the class
)

// sieveMixer mixes what a client's bit is found by.
const sieveMixer = 0x9e3779b1

// NewSieve makes a Sieve that knows nobody, and has so many classes of strangers: a power of two up to 256.
func NewSieve(classes int) *Sieve {
	return &Sieve{seed: rand.Uint32(), leaves: make([]uint32, leastLeaves), classes: uint32(powerOfTwo(classes, mostClasses))}
}

// Clear forgets all clients, and makes room for so many. The classes stay what they are.
func (s *Sieve) Clear(clients int) {
	s.leaves = make([]uint32, max(leastLeaves, powerOfTwo(clients, mostLeaves)))
}

// AtOnce is how many sockets may be given filters in a row, so that this takes no longer than one for all the clients that there is
// room for. The nil Sieve is none.
func (s *Sieve) AtOnce() int {
	if s == nil {
		return mostLeaves / leastLeaves
	}
	return mostLeaves / len(s.leaves)
}

// Next gives the next class of strangers its turn.
func (s *Sieve) Next() { s.turn = (s.turn + 1) % s.classes }

// Know has a client's datagrams pass.
func (s *Sieve) Know(client netip.AddrPort) {
	h := s.hash(client)
	s.leaves[s.leaf(h)] |= 1 << (h % 32)
}

// knows reports whether a client's datagrams pass for sure.
func (s *Sieve) knows(client netip.AddrPort) bool {
	h := s.hash(client)
	return s.leaves[s.leaf(h)]>>(h%32)&1 == 1
}

// leaf is which leaf a hash means: its uppermost bits are.
func (s *Sieve) leaf(hash uint32) int { return int(uint64(hash) >> s.leafShift()) }

func (s *Sieve) leafShift() int { return 32 - bits.Len(uint(len(s.leaves))-1) }

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

// powerOfTwo is the least power of two that is n at least, but at most most.
func powerOfTwo(n, most int) int { return min(1<<bits.Len(uint(max(n, 1)-1)), most) }
