package raknet

import "time"

// Bounds of the retransmission timeout. The first stands until a round trip was measured. Stock RakNet has 2 s as first
// and as longest; a first of half a second repairs a lossy handshake sooner and costs one message twice at worst.
const (
	firstTimeout   = 500 * time.Millisecond
	longestTimeout = 2 * time.Second
	timeoutSlack   = 30 * time.Millisecond // the peer's ticks
)

// rtt estimates the round trip and from it the time after which a datagram counts as lost. Each transmission has its own
// number, so every acknowledgement is a true sample.
type rtt struct {
	smoothed, deviation time.Duration
	backoff             uint8 // doublings of the timeout since the last acknowledgement
}

// sample takes one measured round trip, with the gains of RFC 6298.
func (r *rtt) sample(d time.Duration) {
	r.backoff = 0
	if r.smoothed == 0 {
		r.smoothed, r.deviation = max(d, 1), d/2
		return
	}
	r.deviation += ((d - r.smoothed).Abs() - r.deviation) / 4
	r.smoothed = max(r.smoothed+(d-r.smoothed)/8, 1)
}

// timeout is how long to wait for an acknowledgement: stock RakNet's formula, which allows for peers that acknowledge in
// ticks, with the backing off that it lacks (docs/protocols/raknet.md#recovery-and-congestion).
func (r *rtt) timeout() time.Duration {
	t := firstTimeout
	if r.smoothed != 0 {
		t = 2*r.smoothed + 4*r.deviation + timeoutSlack
	}
	return min(t<<r.backoff, longestTimeout)
}

// expire doubles the timeout after nothing was acknowledged for so long.
func (r *rtt) expire() {
	if r.timeout() < longestTimeout {
		r.backoff++
	}
}
