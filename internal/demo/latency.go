package demo

import "time"

// latencies counts durations in steps of a tenth of a millisecond up to two seconds; longer ones count as that.
type latencies struct {
	counts [20_000]uint64
	total  uint64
}

const latencyStep = 100 * time.Microsecond

func (l *latencies) add(d time.Duration) {
	l.counts[min(max(d/latencyStep, 0), time.Duration(len(l.counts)-1))]++
	l.total++
}

// quantile is the duration that the share q of all durations does not exceed, rounded up to a step; 0 without any.
func (l *latencies) quantile(q float64) time.Duration {
	rank := uint64(q * float64(l.total))
	var below uint64
	for i, n := range l.counts {
		if below += n; below > rank || below == l.total && n > 0 {
			return time.Duration(i+1) * latencyStep
		}
	}
	return 0
}
