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

// Since returns the durations that were counted after an earlier copy.
func (h *Histogram) Since(before *Histogram) Histogram {
	since := Histogram{sum: h.sum - before.sum}
	for i := range h.counts {
		since.counts[i] = h.counts[i] - before.counts[i]
	}
	return since
}

// Quantile estimates a quantile, from 0 to 1, along the bucket that holds it. Without durations it returns 0.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := q * float64(h.Count())
	var below uint64
	var low time.Duration
	for i, bound := range histogramBounds {
		if n := h.counts[i]; n > 0 && float64(below+n) >= rank {
			return low + time.Duration((rank-float64(below))/float64(n)*float64(bound-low))
		}
		below, low = below+h.counts[i], bound
	}
	if below == h.Count() {
		return 0
	}
	return low
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

// sizeBounds are the upper ends of the buckets of Sizes, in bytes.
var sizeBounds = [...]int{0, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20}

// Sizes counts sizes in bytes, in fixed buckets.
type Sizes struct {
	counts [len(sizeBounds) + 1]uint64 // the last one counts sizes beyond every bound
	Sum    uint64
}

func (h *Sizes) observe(n int) {
	i := 0
	for i < len(sizeBounds) && n > sizeBounds[i] {
		i++
	}
	h.counts[i]++
	h.Sum += uint64(max(n, 0))
}

// Add adds the counts of another histogram.
func (h *Sizes) Add(o *Sizes) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.Sum += o.Sum
}

// Cumulative returns the number of sizes up to each bound in bytes, and of all sizes.
func (h *Sizes) Cumulative() (upTo map[float64]uint64, all uint64) {
	upTo = make(map[float64]uint64, len(sizeBounds))
	for i, bound := range sizeBounds {
		all += h.counts[i]
		upTo[float64(bound)] = all
	}
	return upTo, all + h.counts[len(sizeBounds)]
}
