package simnet

import (
	"flag"
	"testing"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run simulations with this seed only")
	seedsFlag = flag.Int("seeds", 0, "run simulations with this many seeds")
)

// With -short, one in shortShare of the seeds runs, but at least fewSeeds.
const (
	shortShare = 10
	fewSeeds   = 5
)

// Seed returns the value of -seed; zero if it is not given.
func Seed() uint64 { return *seedFlag }

// Seeds returns the seeds for a test that usually runs n of them: 1 to n, or to the value of -seeds. With -short there
// are fewer; with -seed only that one.
func Seeds(n int) []uint64 {
	if *seedFlag != 0 {
		return []uint64{*seedFlag}
	}
	switch {
	case *seedsFlag > 0:
		n = *seedsFlag
	case testing.Short():
		n = max(n/shortShare, min(n, fewSeeds))
	}
	seeds := make([]uint64, n)
	for i := range seeds {
		seeds[i] = uint64(i + 1)
	}
	return seeds
}
