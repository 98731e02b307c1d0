package ratelimit

import (
	"net/netip"
	"time"
)

// seenBits is the number of bits in each half of a SeenFilter: 512 KiB.
const seenBits = 1 << 22

// seenTime is the least time for which a source is remembered. Clients repeat a request about once a second.
const seenTime = 2 * time.Second

// SeenFilter is a rotating Bloom filter of recent sources, 1 MiB. False positives grow with load: 6 % at 300,000 new
// sources per second. Within seenTime there are no false negatives. Use NewSeenFilter.
type SeenFilter struct {
	seed       uint64
	young, old *bloom
	rotated    time.Duration // when young began; old began seenTime before
}

// bloom is a Bloom filter with two bits for each source.
type bloom [seenBits / 64]uint64

// NewSeenFilter returns an empty SeenFilter. It allocates its memory on first use. The seed is as in NewHashedBuckets.
func NewSeenFilter(seed uint64) *SeenFilter { return &SeenFilter{seed: seed} }

// Seen reports whether the source was seen before, at most 2*seenTime ago, and remembers the source.
func (a *SeenFilter) Seen(now time.Duration, from netip.AddrPort) bool {
	a.rotate(now)
	h := Hash(from.Addr(), from.Port(), a.seed)
	one, other := uint32(h)%seenBits, uint32(h>>32)%seenBits
	again := a.young.has(one, other) || a.old.has(one, other)
	a.young.add(one, other)
	return again
}

// rotate drops the sources that are too old.
func (a *SeenFilter) rotate(now time.Duration) {
	switch age := now - a.rotated; {
	case a.young == nil:
		a.young, a.old, a.rotated = new(bloom), new(bloom), now
	case age >= 2*seenTime:
		clear(a.young[:])
		clear(a.old[:])
		a.rotated = now
	case age >= seenTime:
		a.young, a.old = a.old, a.young
		clear(a.young[:])
		a.rotated += seenTime
	}
}

func (b *bloom) has(one, other uint32) bool {
	return b[one/64]>>(one%64)&1 != 0 && b[other/64]>>(other%64)&1 != 0
}

func (b *bloom) add(one, other uint32) {
	b[one/64] |= 1 << (one % 64)
	b[other/64] |= 1 << (other % 64)
}
