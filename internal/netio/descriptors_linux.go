package netio

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// reservedDescriptors is the number of the process's descriptors that sockets leave free. Operators, lists and logs
// need some, even when there are more players than descriptors.
const reservedDescriptors = 32

// descriptorBound returns the first descriptor that sockets must not use. The kernel always gives the lowest free
// one, so a high descriptor means that many are in use.
func descriptorBound() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return int(^uint(0) >> 1)
	}
	most := min(limit.Cur, 1<<30) // "unlimited" is larger
	return int(most - min(reservedDescriptors, most/4))
}

// checkDescriptor returns an error if sockets must not use a descriptor.
func (p *epollPoller) checkDescriptor(fd int) error {
	if fd >= p.bound {
		return os.NewSyscallError("socket", unix.EMFILE)
	}
	return nil
}

// lacksDescriptors reports whether an accepted connection takes a descriptor of the last quarter. That quarter is for
// the sockets to servers, which the sessions of all clients need.
func (p *epollPoller) lacksDescriptors(fd int) bool { return fd >= p.bound-p.bound/4 }

// Reserve makes the kernel's table of the process's descriptors large enough for this number, within the process's
// limit. Each entry takes 8 bytes. Otherwise the kernel doubles a full table, and the caller waits until all
// processors have noticed (expand_files, synchronize_rcu). During a flood that stops a loop for up to half a second.
func Reserve(descriptors int) {
	some, err := newEpoll()
	if err != nil {
		return // without it, the table grows later
	}
	high, err := unix.FcntlInt(uintptr(some), unix.F_DUPFD_CLOEXEC, min(descriptors, descriptorBound())-1)
	if err == nil {
		_ = unix.Close(high)
	}
	_ = unix.Close(some)
}

// SyscallConn implements syscall.Conn for special kernel calls on a socket. A LocalSocket has none of its own.
func (s *epollSocket) SyscallConn() (syscall.RawConn, error) {
	if s.closed {
		return nil, ErrClosed
	}
	return descriptor(s.fd), nil
}

// descriptor is the syscall.RawConn of a socket. Only its Poller reads and writes it.
type descriptor int

func (d descriptor) Control(f func(fd uintptr)) error {
	f(uintptr(d))
	return nil
}

// Read and Write are reserved for the Poller.
func (descriptor) Read(func(fd uintptr) bool) error  { return errors.ErrUnsupported }
func (descriptor) Write(func(fd uintptr) bool) error { return errors.ErrUnsupported }
