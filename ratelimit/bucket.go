// Package ratelimit bounds rates, budgets and bans. Time is an argument and memory is bounded.
package ratelimit

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"time"
)

// Rate is an amount per second, and the burst that may pass at once after a rest. Both are at least 1. An amount larger
// than Burst never passes.
type Rate struct {
	PerSecond, Burst int
}

// price is the time in which the rate pays for n, rounded up so that the rate is never exceeded.
func (r Rate) price(n int) time.Duration {
	return time.Duration((uint64(n)*uint64(time.Second) + uint64(r.PerSecond) - 1) / uint64(r.PerSecond))
}

// Bucket is the state of one Rate, by the generic cell rate algorithm (GCRA). The state is the time at which everything
// that passed is paid for, measured from any fixed moment. The zero Bucket is full.
type Bucket time.Duration

// Take reports whether an amount of n may pass at now, and counts it if so.
func (b *Bucket) Take(now time.Duration, r Rate, n int) bool {
	return b.take(now, r.price(n), r.price(r.Burst))
}

// take is Take for an event that costs price, where depth is the price of a whole burst.
func (b *Bucket) take(now, price, depth time.Duration) bool {
	if b.lacks(now, price, depth) {
		return false
	}
	*b = Bucket(max(time.Duration(*b), now) + price)
	return true
}

// lacks reports whether take would refuse.
func (b *Bucket) lacks(now, price, depth time.Duration) bool {
	return max(time.Duration(*b), now)+price-now > depth
}

// Limiter passes one event per Every, and Burst events at once after a rest. Burst 0 counts as 1. Unlike a Rate, it
// can be slower than one event per second. It is not safe for concurrent use.
type Limiter struct {
	Every time.Duration
	Burst int

	start  time.Time // of the bucket's time: the first call of Allow
	bucket Bucket
}

// Allow reports whether an event may pass now, and counts it if so.
func (l *Limiter) Allow(now time.Time) bool {
	if l.start.IsZero() {
		l.start = now
	}
	return l.bucket.take(now.Sub(l.start), l.Every, l.depth())
}

// Spent reports whether Allow would refuse an event now.
func (l *Limiter) Spent(now time.Time) bool {
	return !l.start.IsZero() && l.bucket.lacks(now.Sub(l.start), l.Every, l.depth())
}

// UsedUp returns the time until which past events are paid for.
func (l *Limiter) UsedUp() time.Time { return l.start.Add(time.Duration(l.bucket)) }

// UseUp makes a new Limiter that has passed events until now, which are paid for at the given time. A time beyond the
// burst counts as the whole burst.
func (l *Limiter) UseUp(now, paid time.Time) {
	l.start, l.bucket = now, Bucket(min(max(paid.Sub(now), 0), l.depth()))
}

func (l *Limiter) depth() time.Duration { return l.Every * time.Duration(max(l.Burst, 1)) }

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
