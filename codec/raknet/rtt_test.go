package raknet

import (
	"testing"
	"time"
)

const ms = time.Millisecond

func TestRTT(t *testing.T) {
	var r rtt
	if got := r.timeout(); got != firstTimeout {
		t.Errorf("timeout = %v before any sample, want %v", got, firstTimeout)
	}
	r.sample(100 * ms)
	if got, want := r.timeout(), 330*ms; got != want { // 100 + 4*50 + 30
		t.Errorf("timeout = %v after one sample of 100 ms, want %v", got, want)
	}
	r.expire()
	if got, want := r.timeout(), 660*ms; got != want {
		t.Errorf("timeout = %v after one expiry, want %v", got, want)
	}
	for range 10 {
		r.expire()
	}
	if got := r.timeout(); got != longestBackoff {
		t.Errorf("timeout = %v after many expiries, want %v", got, longestBackoff)
	}
	for range 100 {
		r.sample(100 * ms)
	}
	if got := r.timeout(); got < 130*ms || got > 135*ms {
		t.Errorf("timeout = %v on a steady path of 100 ms, want a little over 130 ms", got)
	}
	r = rtt{}
	r.sample(time.Minute)
	if r.expire(); r.timeout() != longestTimeout {
		t.Errorf("timeout = %v on a path of a minute, want %v", r.timeout(), longestTimeout)
	}
}
