package module

import (
	"syscall"
	"time"
)

// threadTime returns the present thread, and the processor time that it has used.
func threadTime() (thread int, used time.Duration) {
	const ofThread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	_ = syscall.Getrusage(ofThread, &u) // every kernel has it
	return syscall.Gettid(), time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
