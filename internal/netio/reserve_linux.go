package netio

import "golang.org/x/sys/unix"

// Reserve has the kernel's table of the process's descriptors large enough for so many, as far as the process may have them: 8
// bytes each. The kernel would double it as it fills, and whoever opens one too many waits until all processors have seen that
// (expand_files, synchronize_rcu). In a flood that takes a loop up to half a second, in which it reads nothing.
func Reserve(descriptors int) {
	some, err := newEpoll()
	if err != nil {
		return // at worst the table grows as it fills, as without this
	}
	high, err := unix.FcntlInt(uintptr(some), unix.F_DUPFD_CLOEXEC, min(descriptors, descriptorBound())-1)
	if err == nil {
		_ = unix.Close(high)
	}
	_ = unix.Close(some)
}
