package riptide

import "time"

// Times of the library's resends. docs/protocols/riptide.md#resends
const (
	firstResend   = 50 * time.Millisecond // while no round trip has been measured
	minimumResend = 10 * time.Millisecond
)

// patientSends is the number of transmissions after which a message is not sent again before firstResend. On a short
// path the library's times would give a connection up after 150 ms. The library's own ticks are too coarse for that;
// ours are not.
const patientSends = 5

// rtt is the smoothed round-trip time: seven parts of the old value and three parts of the new one, at least a
// millisecond.
type rtt struct {
	smooth time.Duration // zero until measured
	last   time.Duration
	own    bool // a sample was our own measurement, not the peer's figure
}

// measure takes a sample of our own.
func (r *rtt) measure(sample time.Duration) {
	if !r.own {
		r.own, r.smooth = true, 0
	}
	r.sample(sample)
}

// claim takes the peer's figure, until we have measured ourselves.
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

// resend returns how long a reliable message waits for its acknowledgement after the given number of sends.
func (r *rtt) resend(sends uint8) time.Duration {
	if r.smooth == 0 {
		return firstResend
	}
	after := max(minimumResend, r.smooth*6/5)
	if sends >= patientSends {
		after = max(after, firstResend)
	}
	return after
}

// milliseconds returns the last round trip as a heartbeat reports it, or -1 if there is none.
func (r *rtt) milliseconds() int16 {
	if r.smooth == 0 {
		return -1
	}
	return int16(min(r.last.Milliseconds(), 1<<15-1))
}
