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
	Smoothed time.Duration `cbor:"1,keyasint,omitempty"` // 0 until there is a sample
	// Deviation is, before the first sample, the round trip of the offline handshake, if measured.
	Deviation time.Duration `cbor:"2,keyasint,omitempty"`
	Backoff   uint8         `cbor:"3,keyasint,omitempty"` // doublings of the timeout since the last acknowledgement
}

// sample takes one measured round trip, with the gains of RFC 6298.
func (r *rtt) sample(d time.Duration) {
	r.Backoff = 0
	if r.Smoothed == 0 {
		r.Smoothed, r.Deviation = max(d, 1), d/2
		return
	}
	r.Deviation += ((d - r.Smoothed).Abs() - r.Deviation) / 4
	r.Smoothed = max(r.Smoothed+(d-r.Smoothed)/8, 1)
}

// expect takes the time from the last request of the offline handshake to its answer. It replaces a sample until there
// is one. If the answer belongs to an earlier request, the time is too short. That costs a copy of the next datagram.
func (r *rtt) expect(d time.Duration) {
	if r.Smoothed == 0 && (r.Deviation == 0 || d < r.Deviation) {
		r.Deviation = max(d, 1)
	}
}

// timeout returns how long to wait for an acknowledgement, by RFC 6298. Stock RakNet waits a round trip longer, but
// has no backoff (docs/protocols/raknet/recovery.md#recovery-and-congestion).
func (r *rtt) timeout() time.Duration {
	t := firstTimeout
	switch handshake := r.Deviation; {
	case r.Smoothed != 0:
		t = r.Smoothed + 4*r.Deviation + timeoutSlack
	case handshake != 0:
		// This is the value after a first sample. Beyond firstTimeout the sample may include the wait for a lost datagram.
		t = min(3*handshake+handshakeSlack, max(firstTimeout, handshake+handshakeSlack))
	}
	return min(max(t, min(t<<r.Backoff, longestBackoff)), longestTimeout)
}

// expire doubles the timeout after a timeout without any acknowledgement.
func (r *rtt) expire() {
	if r.timeout() < longestBackoff {
		r.Backoff++
	}
}
