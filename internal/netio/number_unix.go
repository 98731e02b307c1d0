//go:build unix

package netio

import "syscall"

// setNumber sets an option of a socket.
func setNumber(fd uintptr, level, option, value int) error {
	return syscall.SetsockoptInt(int(fd), level, option, value)
}
