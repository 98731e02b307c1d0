package stats

import (
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	var a, b Histogram
	for _, d := range []time.Duration{0, 10 * time.Microsecond, 11 * time.Microsecond, time.Second} {
		a.observe(d)
	}
	b.observe(time.Minute)
	a.Add(&b)
	if a.Count() != 5 || a.Sum() != time.Minute+time.Second+21*time.Microsecond {
		t.Errorf("%d counted, sum %v", a.Count(), a.Sum())
	}
	got, last, bound := make(map[time.Duration]uint64), uint64(0), time.Duration(0)
	for upper, n := range a.Buckets {
		if n < last || upper <= bound {
			t.Errorf("bucket to %v has %d, the one before it, to %v, has %d", upper, n, bound, last)
		}
		got[upper], last, bound = n, n, upper
	}
	for upper, want := range map[time.Duration]uint64{
		10 * time.Microsecond: 2, 20 * time.Microsecond: 3, 500 * time.Millisecond: 3, time.Second: 4, 5 * time.Second: 4,
	} {
		if got[upper] != want {
			t.Errorf("%d are not longer than %v, want %d", got[upper], upper, want)
		}
	}
}
