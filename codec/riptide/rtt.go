package riptide

import "time"

// The times of the library's resends. docs/protocols/riptide.md#resends
const (
	firstResend   = 50 * time.Millisecond // while no round trip has been measured
	minimumResend = 10 * time.Millisecond
)

// rtt is the smoothed round trip time: seven parts of the old value and three of the new, at least a millisecond.
type rtt struct {
	smooth time.Duration // zero until measured
	last   time.Duration
	own    bool // a sample was our own measurement, not the peer's claim
}

// measure takes a sample of our own.
func (r *rtt) measure(sample time.Duration) {
	if !r.own {
		r.own, r.smooth = true, 0
	}
	r.sample(sample)
}

// claim takes what the peer says, as long as there is nothing better.
func (r *rtt) claim(sample time.Duration) {
	if !r.own {
		r.sample(sample)
	}
}

func (r *rtt) sample(d time.Duration) {
	r.last = max(d, time.Millisecond)
	if r.smooth == 0 {
		r.smooth = r.last
		return
	}
	r.smooth = (7*r.smooth + 3*r.last) / 10
}

// resend is how long a reliable message waits for its acknowledgement before it is sent again.
func (r *rtt) resend() time.Duration {
	if r.smooth == 0 {
		return firstResend
	}
	return max(minimumResend, r.smooth*6/5)
}

// milliseconds is the last round trip as a heartbeat reports it, -1 when there is none.
func (r *rtt) milliseconds() int16 {
	if r.smooth == 0 {
		return -1
	}
	return int16(min(r.last.Milliseconds(), 1<<15-1))
}
