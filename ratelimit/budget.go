package ratelimit

import (
	"net/netip"
	"time"

	"tidegate/internal/source"
)

// Rates are the events per second that a Budget passes. As many may pass at once after a second of rest. Both are at
// least 1.
type Rates struct {
	Overall int
	Network int // of each source network: IPv4 /24, IPv6 /48
}

// Budget bounds events overall and per source network, in 64 KiB from the first event on. Networks share HashedBuckets.
// It is not safe for concurrent use.
type Budget struct {
	start                      time.Time // of the buckets' time: the first call of Allow
	seed                       uint64
	overall                    Bucket
	networks                   *HashedBuckets // nil before start
	overallEvery, networkEvery time.Duration  // between events
	overallDepth, networkDepth time.Duration
}

// NewBudget returns a full Budget. The seed decides which networks share a bucket; strangers should not know it.
func NewBudget(r Rates, seed uint64) *Budget {
	b := &Budget{seed: seed, overallEvery: every(r.Overall), networkEvery: every(r.Network)}
	b.overallDepth = b.overallEvery * time.Duration(max(r.Overall, 1))
	b.networkDepth = b.networkEvery * time.Duration(max(r.Network, 1))
	return b
}

// every is the time between events of a rate, rounded up so that the rate is never exceeded.
func every(rate int) time.Duration { return Rate{PerSecond: max(rate, 1)}.price(1) }

// Allow reports whether an event of a source may pass now, and counts it if so. An event that only the overall rate
// refuses still counts towards its network.
func (b *Budget) Allow(now time.Time, from netip.Addr) bool {
	if b.start.IsZero() {
		b.start, b.networks = now, NewHashedBuckets(b.seed)
	}
	at := now.Sub(b.start)
	network := b.networks.Of(source.Of(from).Network())
	return network.take(at, b.networkEvery, b.networkDepth) && b.overall.take(at, b.overallEvery, b.overallDepth)
}
