package time

import (
	"sync/atomic"
	"syscall"
)

// TestChaos builds Tidegate with this file in package time.

// jump is by how many seconds the wall clock is wrong.
var jump atomic.Int64

// init reads jump again and again from the file in TIDEGATE_CHAOS_CLOCK.
func init() {
	name, _ := syscall.Getenv("TIDEGATE_CHAOS_CLOCK")
	readJump(name)
	go func() {
		for ; ; Sleep(20 * Millisecond) {
			readJump(name)
		}
	}()
}

func readJump(name string) {
	fd, err := open(name)
	if err != nil {
		return
	}
	defer closefd(fd)
	var b [32]byte
	n, _ := read(fd, b[:])
	sign, seconds := int64(1), int64(0)
	for _, c := range b[:max(n, 0)] {
		switch {
		case c == '-':
			sign = -1
		case c >= '0' && c <= '9':
			seconds = 10*seconds + int64(c-'0')
		}
	}
	jump.Store(sign * seconds)
}
