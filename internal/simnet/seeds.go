package simnet

import (
	"flag"
	"testing"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run simulations with this seed only")
	seedsFlag = flag.Int("seeds", 0, "run simulations with this many seeds")
)

// shortShare is how much fewer seeds -short runs.
const shortShare = 10

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
		n = max(n/shortShare, 1)
	}
	seeds := make([]uint64, n)
	for i := range seeds {
		seeds[i] = uint64(i + 1)
	}
	return seeds
}
