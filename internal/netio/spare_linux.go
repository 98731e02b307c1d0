package netio

import (
	"os"

	"golang.org/x/sys/unix"
)

// spareFiles is how many of the process's descriptors sockets of a Poller leave free: operators shall get in, and lists and
// logs be read, when there are more players than descriptors.
const spareFiles = 32

// descriptorBound is the descriptor from which on a process has no more for sockets. The kernel gives the lowest that is free,
// so a high one says how many there are.
func descriptorBound() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return int(^uint(0) >> 1)
	}
	most := min(limit.Cur, 1<<30) // which "unlimited" is beyond
	return int(most - min(spareFiles, most/4))
}

// affords reports whether a descriptor may be a socket's.
func (p *epollPoller) affords(fd int) error {
	if fd >= p.bound {
		return os.NewSyscallError("socket", unix.EMFILE)
	}
	return nil
}
