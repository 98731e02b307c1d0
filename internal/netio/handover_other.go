//go:build !linux

package netio

import (
	"errors"
	"net/netip"
	"os"
)

// BoundAddress tells what a socket of another process is bound to, and whether it is one of streams. Linux only.
func BoundAddress(*os.File) (addr netip.AddrPort, stream bool, err error) {
	return addr, false, errors.ErrUnsupported
}

// Duplicate copies a descriptor, for another process. Linux only.
func Duplicate(*os.File) (*os.File, error) { return nil, errors.ErrUnsupported }
