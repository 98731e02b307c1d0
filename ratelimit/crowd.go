package ratelimit

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// crowdSize is how many Buckets a Crowd has: 64 KiB.
const crowdSize = 8192

// Crowd has a Bucket for each of any number of networks, in memory that does not grow. Networks share Buckets by chance,
// and none can take another's: a flood of forged sources makes a Crowd stricter and never laxer.
type Crowd struct {
	seed    uint64
	buckets [crowdSize]Bucket
}

// NewCrowd returns a Crowd of full Buckets. Networks share them by the seed, which strangers should not know.
func NewCrowd(seed uint64) *Crowd { return &Crowd{seed: seed} }

// Of is the Bucket of a network.
func (c *Crowd) Of(p netip.Prefix) *Bucket { return &c.buckets[hash(p.Addr(), 0, c.seed)%crowdSize] }

// OfKind is the Bucket of a network for one of several kinds of events.
func (c *Crowd) OfKind(p netip.Prefix, kind uint8) *Bucket {
	return &c.buckets[hash(p.Addr(), 1+uint16(kind), c.seed)%crowdSize]
}

// hash spreads addresses and ports over all numbers by a seed.
func hash(a netip.Addr, port uint16, seed uint64) uint64 {
	ip := a.As16()
	h := mix(binary.BigEndian.Uint64(ip[:8])^seed, 0x9e3779b97f4a7c15)
	return mix(h^binary.BigEndian.Uint64(ip[8:]), 0xbf58476d1ce4e5b9^uint64(port)<<1^seed)
}

// mix folds a product of 128 bits.
func mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b|1)
	return high ^ low
}
