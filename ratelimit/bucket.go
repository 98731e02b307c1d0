package ratelimit

import "time"

// Rate is how much may pass in a second, and how much at once after a rest. Both are at least 1; what counts more than
// Burst never passes.
type Rate struct {
	PerSecond, Burst int
}

// Bucket is the state of one Rate: when all that passed so far would have been paid for, as time since any fixed moment.
// The zero Bucket is full.
type Bucket time.Duration

// Take reports whether something that counts n may pass at now, and counts it if so.
func (b *Bucket) Take(now time.Duration, r Rate, n int) bool {
	paid := max(time.Duration(*b), now) + r.price(n)
	if paid-now > r.price(r.Burst) {
		return false
	}
	*b = Bucket(paid)
	return true
}

// price is how long n take to be paid for, rounded up so that the rate is never exceeded.
func (r Rate) price(n int) time.Duration {
	return time.Duration((uint64(n)*uint64(time.Second) + uint64(r.PerSecond) - 1) / uint64(r.PerSecond))
}
