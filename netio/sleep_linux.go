package netio

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleep sleeps for about d, or less if a signal comes. Go's own timers, late by up to a millisecond while the process is
// idle, are too coarse for a batch's delay.
func sleep(d time.Duration) {
	if d > 0 {
		ts := unix.NsecToTimespec(d.Nanoseconds())
		_ = unix.Nanosleep(&ts, nil)
	}
}
