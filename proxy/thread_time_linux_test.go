package proxy

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns the processor time of this thread. So the times of a turn leave out waits for a processor.
func threadTime() time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at); err != nil {
		return 0
	}
	return time.Duration(at.Nano())
}
