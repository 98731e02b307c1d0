// Package allocs counts allocations in tests, undisturbed by what else the test binary runs.
package allocs

import "testing"

// attempts is how often a count that is not zero is taken again.
const attempts = 5

// PerRun is testing.AllocsPerRun, which counts the allocations of all goroutines: connections that an earlier test left
// behind may still be saying goodbye. What f itself allocates it allocates in every attempt, so the least count is its own.
func PerRun(runs int, f func()) float64 {
	least := testing.AllocsPerRun(runs, f)
	for i := 1; i < attempts && least > 0; i++ {
		least = min(least, testing.AllocsPerRun(runs, f))
	}
	return least
}
