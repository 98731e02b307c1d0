package netio

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// All other sockets of the process are in Go's own poller. A thread that finds a loop ready leaves that poller, and
// relies on the scheduler's monitor to look there. But the monitor sleeps while all goroutines wait, until one of them
// makes a system call that the scheduler notices, or until the next timer, which may be a second away. Loops make raw
// calls only. So a loop that goes on without a park must see to it that a thread looks.

// turnsAlone is the number of turns after a park before a loop does so.
const turnsAlone = 16

// shareGoPoller sees to it that a thread looks into Go's poller.
func shareGoPoller() {
	if runtime.GOMAXPROCS(0) > int(waiters.Load()) {
		// The goroutine ends at once, and its thread then waits in the poller. The monitor may sleep on: awake, it would
		// look a hundred times a second.
		go func() {}()
		return
	}
	// Loops may have all of Go's processors. The monitor, once awake, takes one from a busy loop every 10 ms.
	_, _, _ = unix.Syscall(unix.SYS_GETPID, 0, 0, 0)
}
