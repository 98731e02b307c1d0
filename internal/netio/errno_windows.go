package netio

import (
	"errors"
	"syscall"
)

// Winsock's error numbers that package syscall does not name.
const (
	wsaEMsgSize     syscall.Errno = 10040
	wsaENetUnreach  syscall.Errno = 10051
	wsaEHostUnreach syscall.Errno = 10065
	wsaEWouldBlock  syscall.Errno = 10035
)

// classify tells what an error of the operating system means. None means refused: package net has Winsock keep the
// reports of unreachable ports to itself.
func classify(err error) failure {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
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
