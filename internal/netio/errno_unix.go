//go:build unix

package netio

import (
	"errors"
	"syscall"
)

// classify returns the meaning of a system error.
func classify(err error) failure {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return otherFailure
	}
	return classifyErrno(errno)
}

// classifyErrno is classify for an error number. It does not allocate.
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

// refusesSource reports whether the source address of a datagram may be the cause of an error. Linux finds no network.
func refusesSource(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.ENETUNREACH)
}
