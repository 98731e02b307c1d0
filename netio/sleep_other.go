//go:build !linux

package netio

import "time"

// sleep sleeps for at least d.
func sleep(d time.Duration) { time.Sleep(d) }
