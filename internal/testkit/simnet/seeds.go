package simnet

import (
	"flag"
	"testing"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run simulations with this seed only")
	seedsFlag = flag.Int("seeds", 0, "run simulations with this many seeds")
)

// -short runs one in shortShare of the seeds, but not fewer than fewSeeds of those there are.
const (
	shortShare = 10
	fewSeeds   = 5
)

// Seeds are the seeds that a test with n of them as its usual number runs: 1 to n, or to what -seeds says, fewer with
// -short, or only the one of -seed.
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
