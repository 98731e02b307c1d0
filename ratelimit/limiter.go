// Package ratelimit holds budgets. Time is an argument and memory is bounded.
package ratelimit

import "time"

// Limiter lets an event pass once every Every, and Burst of them at once after a rest: the generic cell rate algorithm,
// whose whole state is one time. The zero Limiter with Every set passes one at a time. Not safe for concurrent use.
type Limiter struct {
	Every time.Duration
	Burst int

	free time.Time // when all that passed so far would have been paid for
}

// Allow reports whether an event may pass now, and counts it if so.
func (l *Limiter) Allow(now time.Time) bool {
	free := l.free
	if free.Before(now) {
		free = now
	}
	if free.Sub(now) > l.Every*time.Duration(max(l.Burst, 1)-1) {
		return false
	}
	l.free = free.Add(l.Every)
	return true
}
