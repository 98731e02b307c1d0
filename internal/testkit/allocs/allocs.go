// Package allocs counts allocations in tests, without the noise of other goroutines in the test binary.
package allocs

import "testing"

// attempts is the largest number of measurements, if none is zero.
const attempts = 5

// PerRun is testing.AllocsPerRun, but robust: AllocsPerRun counts the allocations of all goroutines, and connections of
// an earlier test may still be closing. The allocations of f itself show up in every attempt, so the least count is its
// own.
func PerRun(runs int, f func()) float64 {
	least := testing.AllocsPerRun(runs, f)
	for i := 1; i < attempts && least > 0; i++ {
		least = min(least, testing.AllocsPerRun(runs, f))
	}
	return least
}
