package rtype

import "time"

// rate lets so many messages pass a second, and as many at once after a second of silence.
type rate struct {
	perSecond int
	next      time.Time // when the messages so far would have been due if evenly spread
}

// allow reports whether one more message may pass now.
func (r *rate) allow(now time.Time) bool {
	if r.next.Before(now) {
		r.next = now
	}
	every := time.Second / time.Duration(r.perSecond)
	if r.next.Sub(now) > time.Second-every {
		return false
	}
	r.next = r.next.Add(every)
	return true
}
