package raknet

import "time"

// Bounds of the retransmission timeout. The first one holds until a round trip was measured. Stock RakNet has 2 s as
// the first and as the longest. A first one of half a second repairs a lossy handshake sooner, and duplicates one
// message at worst. Backoff ends early, since a player waits. A dead peer gets each message ten times until it is
// given up, where stock RakNet sends it a hundred times.
const (
	firstTimeout   = 500 * time.Millisecond
	longestTimeout = 2 * time.Second
	longestBackoff = time.Second
	timeoutSlack   = 30 * time.Millisecond // the peer's ticks
	// handshakeSlack is the slack while the peer's acknowledgements are unknown: go-raknet's wait for a tick of 100 ms.
	handshakeSlack = 110 * time.Millisecond
)

// rtt estimates the round trip, and from it the time after which a datagram counts as lost. Each transmission has its
// own number, so every acknowledgement is a valid sample.
type rtt struct {
	smoothed  time.Duration // 0 until there is a sample
	deviation time.Duration // before the first sample: the round trip of the offline handshake, if measured
	backoff   uint8         // doublings of the timeout since the last acknowledgement
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

// expect takes the time from the last request of the offline handshake to its answer. It replaces a sample until there
// is one. If the answer belongs to an earlier request, the time is too short. That costs a copy of the next datagram.
func (r *rtt) expect(d time.Duration) {
	if r.smoothed == 0 && (r.deviation == 0 || d < r.deviation) {
		r.deviation = max(d, 1)
	}
}

// timeout returns how long to wait for an acknowledgement, by RFC 6298. Stock RakNet waits a round trip longer, but
// has no backoff (docs/protocols/raknet/recovery.md#recovery-and-congestion).
func (r *rtt) timeout() time.Duration {
	t := firstTimeout
	switch handshake := r.deviation; {
	case r.smoothed != 0:
		t = r.smoothed + 4*r.deviation + timeoutSlack
	case handshake != 0:
		// This is the value after a first sample. Beyond firstTimeout the sample may include the wait for a lost datagram.
		t = min(3*handshake+handshakeSlack, max(firstTimeout, handshake+handshakeSlack))
	}
	return min(max(t, min(t<<r.backoff, longestBackoff)), longestTimeout)
}

// expire doubles the timeout after a timeout without any acknowledgement.
func (r *rtt) expire() {
	if r.timeout() < longestBackoff {
		r.backoff++
	}
}
