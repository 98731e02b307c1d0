package ratelimit

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// hashedBuckets is the number of Buckets in a HashedBuckets: 64 KiB.
const hashedBuckets = 8192

// HashedBuckets gives each network a Bucket, in memory that does not grow. Networks with the same hash share a Bucket,
// and no network can evict another. So a flood from forged sources makes the limit stricter, never laxer.
type HashedBuckets struct {
	seed    uint64
	buckets [hashedBuckets]Bucket
}

// NewHashedBuckets returns full Buckets. The seed decides which networks share one; strangers should not know it.
func NewHashedBuckets(seed uint64) *HashedBuckets { return &HashedBuckets{seed: seed} }

// Of returns the Bucket of a network.
func (h *HashedBuckets) Of(p netip.Prefix) *Bucket {
	return &h.buckets[Hash(p.Addr(), 0, h.seed)%hashedBuckets]
}

// OfKind returns the Bucket of a network for one of several kinds of events.
func (h *HashedBuckets) OfKind(p netip.Prefix, kind uint8) *Bucket {
	return &h.buckets[Hash(p.Addr(), 1+uint16(kind), h.seed)%hashedBuckets]
}

// Hash returns a seeded hash of an address and a port. Sources that do not know the seed cannot choose their hash.
func Hash(a netip.Addr, port uint16, seed uint64) uint64 {
	ip := a.As16()
	h := fold(binary.BigEndian.Uint64(ip[:8])^seed, 0x9e3779b97f4a7c15)
	return fold(h^binary.BigEndian.Uint64(ip[8:]), 0xbf58476d1ce4e5b9^uint64(port)<<1^seed)
}

// fold multiplies to 128 bits and combines both halves.
func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b|1)
	return high ^ low
}
