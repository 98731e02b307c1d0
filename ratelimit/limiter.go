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
func (l *Limiter) Allow(now time.Time) bool { return allow(&l.free, now, l.Every, l.Burst) }

// Spent reports whether Allow would refuse an event now.
func (l *Limiter) Spent(now time.Time) bool { return spent(l.free, now, l.Every, l.Burst) }

func spent(free, now time.Time, every time.Duration, burst int) bool {
	return free.Sub(now) > every*time.Duration(max(burst, 1)-1)
}

// allow is Allow with the state of a Limiter at free.
func allow(free *time.Time, now time.Time, every time.Duration, burst int) bool {
	if spent(*free, now, every, burst) {
		return false
	}
	if free.Before(now) {
		*free = now
	}
	*free = free.Add(every)
	return true
}
