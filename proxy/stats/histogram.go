package stats

import "time"

// histogramBounds are the upper ends of a Histogram's buckets. They reach from a short turn of a loop to the round
// trip of a bad connection.
var histogramBounds = [...]time.Duration{
	10 * time.Microsecond, 20 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	1 * time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	1 * time.Second, 2 * time.Second, 5 * time.Second,
}

// Histogram counts durations by size, in fixed buckets from 10 µs to 5 s.
type Histogram struct {
	counts [len(histogramBounds) + 1]uint64 // the last one counts durations beyond every bound
	sum    time.Duration
}

func (h *Histogram) observe(d time.Duration) {
	i := 0
	for i < len(histogramBounds) && d > histogramBounds[i] {
		i++
	}
	h.counts[i]++
	h.sum += d
}

// Add adds the counts of another histogram.
func (h *Histogram) Add(o *Histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.sum += o.sum
}

// Sum returns the sum of all counted durations.
func (h *Histogram) Sum() time.Duration { return h.sum }

// Count returns the number of counted durations.
func (h *Histogram) Count() (n uint64) {
	for _, c := range h.counts {
		n += c
	}
	return n
}

// Buckets yields each bucket's upper end and the number of durations up to that end, in rising order. Only Count
// includes durations beyond the last end.
func (h *Histogram) Buckets(yield func(bound time.Duration, count uint64) bool) {
	var n uint64
	for i, bound := range histogramBounds {
		n += h.counts[i]
		if !yield(bound, n) {
			return
		}
	}
}
