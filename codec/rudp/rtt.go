package rudp

import "time"

// rtt is the smoothed round trip time: seven parts of the old value and one of the new. It contains the wait for the
// peer's next packet, up to a period; so do the library's own figures.
type rtt time.Duration

func (r *rtt) sample(d time.Duration) {
	if *r == 0 {
		*r = rtt(d)
		return
	}
	*r += (rtt(d) - *r) / 8
}
