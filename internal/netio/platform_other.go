//go:build !linux

package netio

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
)

// newNative opens the best backend of the platform.
func newNative(o Options) (Poller, error) {
	if o.Backend == Epoll {
		return nil, fmt.Errorf("epoll: %w", errors.ErrUnsupported)
	}
	return newPortable(o), nil
}

// native is the backend that newNative opens.
const native = Portable

// leastBuffer is the smallest receive buffer that is worth a try.
const leastBuffer = 64 << 10

// setReadBuffer sets the receive buffer of a socket. Some systems refuse sizes above their limit, so it then tries
// smaller ones.
func setReadBuffer(conn *net.UDPConn, size int) error {
	_, err := askBuffer(conn, size)
	return err
}

func askBuffer(conn *net.UDPConn, size int) (given int, err error) {
	for given = size; ; given /= 2 {
		if err = conn.SetReadBuffer(given); err == nil || given/2 < leastBuffer {
			return given, err
		}
	}
}

// GrantedBuffer returns how much of a receive buffer the system grants this process.
func GrantedBuffer(size int) (int, error) {
	conn, err := net.ListenUDP("udp4", nil)
	if err != nil {
		return 0, err
	}
	given, err := askBuffer(conn, size)
	_ = conn.Close() // nothing was sent
	return given, err
}

// BoundAddress returns the address of a socket of another process. It works only on Linux.
func BoundAddress(int) (addr netip.AddrPort, stream bool, err error) {
	return addr, false, errors.ErrUnsupported
}

// Duplicate copies a descriptor. It works only on Linux.
func Duplicate(int) (int, error) { return -1, errors.ErrUnsupported }

// TakeDescriptor closes the file. It returns its descriptor only on Linux.
func TakeDescriptor(f *os.File) (int, error) {
	return -1, errors.Join(errors.ErrUnsupported, f.Close())
}

// CloseCopies does nothing, except on Linux.
func CloseCopies([]int) {}

// Reserve does nothing, except on Linux.
func Reserve(int) {}

// CheckSources returns an error, except on Linux.
func CheckSources(netip.Prefix) error { return errors.ErrUnsupported }

// CheckTransparent returns an error, except on Linux.
func CheckTransparent() error {
	return fmt.Errorf("foreign source addresses: %w", errors.ErrUnsupported)
}
