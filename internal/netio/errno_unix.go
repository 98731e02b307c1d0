//go:build unix

package netio

import (
	"errors"
	"syscall"
)

// classify tells what an error of the operating system means.
func classify(err error) failure {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return otherFailure
	}
	return classifyErrno(errno)
}

// classifyErrno is classify for those who have the bare number: it allocates nothing.
func classifyErrno(errno syscall.Errno) failure {
	switch errno {
	case syscall.EAGAIN:
		return wouldBlock
	case syscall.EMSGSIZE:
		return tooLarge
	case syscall.ECONNREFUSED:
		return refused
	case syscall.EHOSTUNREACH, syscall.ENETUNREACH:
		return unreachable
	}
	return otherFailure
}
