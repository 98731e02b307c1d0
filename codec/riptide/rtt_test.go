package riptide

import (
	"testing"
	"time"
)

func TestRTT(t *testing.T) {
	const ms = time.Millisecond
	var r rtt
	for _, step := range []struct {
		what          string
		sample        time.Duration
		claimed       bool
		smooth, again time.Duration
		reported      int16
	}{
		{"claimed", 400 * ms, true, 400 * ms, 480 * ms, 400},
		{"claimed again", 300 * ms, true, 370 * ms, 444 * ms, 300},
		{"measured, which forgets the claims", 100 * ms, false, 100 * ms, 120 * ms, 100},
		{"claims no longer count", 1 * ms, true, 100 * ms, 120 * ms, 100},
		{"measured again", 200 * ms, false, 130 * ms, 156 * ms, 200},
		{"a minute", time.Minute, false, 18091 * ms, 21709200 * time.Microsecond, 32767},
	} {
		if step.claimed {
			r.claim(step.sample)
		} else {
			r.measure(step.sample)
		}
		if r.smooth != step.smooth || r.resend(1) != step.again || r.milliseconds() != step.reported {
			t.Errorf("%s: smooth %v, resend after %v, reported %d", step.what, r.smooth, r.resend(1), r.milliseconds())
		}
	}
}

func TestRTTBounds(t *testing.T) {
	var r rtt
	if r.resend(1) != firstResend || r.milliseconds() != -1 {
		t.Errorf("unknown: resend after %v, reported %d", r.resend(1), r.milliseconds())
	}
	r.measure(0)
	if got := r.resend(patientSends); got != firstResend {
		t.Errorf("zero, after %d transmissions: resend after %v", patientSends, got)
	}
	if r.smooth != time.Millisecond || r.resend(1) != minimumResend || r.milliseconds() != 1 {
		t.Errorf("zero: smooth %v, resend after %v, reported %d", r.smooth, r.resend(1), r.milliseconds())
	}
}
