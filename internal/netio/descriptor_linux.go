package netio

import (
	"errors"
	"syscall"
)

// SyscallConn implements syscall.Conn, for what the kernel is asked to do with a socket. A LocalSocket has none: it is its
// listener's.
func (s *epollSocket) SyscallConn() (syscall.RawConn, error) {
	if s.closed {
		return nil, ErrClosed
	}
	return descriptor(s.fd), nil
}

// descriptor is a syscall.RawConn of a socket that is read and written by its Poller alone.
type descriptor int

func (d descriptor) Control(f func(fd uintptr)) error {
	f(uintptr(d))
	return nil
}

// Read and Write are the Poller's to do.
func (descriptor) Read(func(fd uintptr) bool) error  { return errors.ErrUnsupported }
func (descriptor) Write(func(fd uintptr) bool) error { return errors.ErrUnsupported }
