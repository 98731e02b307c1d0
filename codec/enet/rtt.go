package enet

import "time"

// rtt is the smoothed round trip and its variation, by the rules of docs/protocols/enet.md#round-trips.
type rtt struct {
	mean, deviation time.Duration
	known           bool
}

// Round trips.
const (
	initialRTT = 500 * time.Millisecond
	// leastTimeout is a floor for peers that look at their socket only once a frame. The library has none.
	leastTimeout = 20 * time.Millisecond
)

func newRTT() rtt { return rtt{mean: initialRTT} }

func (r *rtt) sample(m time.Duration) {
	if !r.known {
		r.mean, r.deviation, r.known = m, (m+time.Millisecond)/2, true
		return
	}
	r.deviation += ((m - r.mean).Abs() - r.deviation) / 4
	r.mean += (m - r.mean) / 8
}

// timeout is how long to wait for an acknowledgement before the first repetition.
func (r *rtt) timeout() time.Duration { return max(r.mean+4*r.deviation, leastTimeout) }
