package netio

import (
	"errors"
	"syscall"
)

// Winsock error numbers that package syscall does not name.
const (
	wsaEInval        syscall.Errno = 10022
	wsaEWouldBlock   syscall.Errno = 10035
	wsaEMsgSize      syscall.Errno = 10040
	wsaEAddrNotAvail syscall.Errno = 10049
	wsaENetUnreach   syscall.Errno = 10051
	wsaEHostUnreach  syscall.Errno = 10065
)

// classify returns the meaning of a system error. It never returns refused, because package net turns reports of
// unreachable ports off in Winsock.
func classify(err error) failure {
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		return otherFailure
	}
	switch errno {
	case wsaEWouldBlock:
		return wouldBlock
	case wsaEMsgSize:
		return tooLarge
	case wsaEHostUnreach, wsaENetUnreach:
		return unreachable
	}
	return otherFailure
}

// refusesSource reports whether the source address of a datagram is the cause of an error.
func refusesSource(err error) bool {
	return errors.Is(err, wsaEInval) || errors.Is(err, wsaEAddrNotAvail)
}
