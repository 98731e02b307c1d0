package netio

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// setBuffer sets the size of a kernel buffer. It exceeds the system's limit if the process is allowed to.
func setBuffer(fd, force, ask, size int) error {
	if size == 0 || setOption(fd, unix.SOL_SOCKET, force, size) == nil {
		return nil
	}
	return setOption(fd, unix.SOL_SOCKET, ask, size)
}

func setReceiveBuffer(fd, size int) error {
	return setBuffer(fd, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, size)
}

// setReadBuffer sets the receive buffer of a socket of package net.
func setReadBuffer(conn *net.UDPConn, size int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = setReceiveBuffer(int(fd), size) })
	if err != nil {
		return err
	}
	return inner
}

// GrantedBuffer returns how much of a receive buffer the kernel grants this process. Without the capability
// CAP_NET_ADMIN the limit is net.core.rmem_max.
func GrantedBuffer(size int) (int, error) {
	fd, err := openSocket(unix.AF_INET, SocketOptions{ReceiveBuffer: size})
	if err != nil {
		return 0, err
	}
	doubled, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	return doubled / 2, closeAfter(fd, os.NewSyscallError("getsockopt", err))
}
