package simnet

import (
	"slices"
	"testing"
)

func TestSeeds(t *testing.T) {
	oneSeed, manySeeds := *seedFlag, *seedsFlag
	defer func() { *seedFlag, *seedsFlag = oneSeed, manySeeds }()
	for _, test := range []struct {
		seed  uint64
		seeds int
		want  []uint64
	}{
		{0, 4, []uint64{1, 2, 3, 4}},
		{9, 4, []uint64{9}},
	} {
		*seedFlag, *seedsFlag = test.seed, test.seeds
		if got := Seeds(200); !slices.Equal(got, test.want) {
			t.Errorf("-seed=%d -seeds=%d: Seeds = %v, want %v", test.seed, test.seeds, got, test.want)
		}
	}
	*seedFlag, *seedsFlag = 0, 0
	for _, test := range []struct{ n, short int }{{200, 20}, {20, 5}, {3, 3}} {
		want := test.n
		if testing.Short() {
			want = test.short
		}
		if got := len(Seeds(test.n)); got != want {
			t.Errorf("without flags Seeds(%d) has %d, want %d", test.n, got, want)
		}
	}
}
