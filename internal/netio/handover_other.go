//go:build !linux

package netio

import (
	"errors"
	"net/netip"
	"os"
)

// Bound tells what a socket of another process is bound to, and whether it is one of streams. Linux only.
func Bound(*os.File) (addr netip.AddrPort, stream bool, err error) {
	return addr, false, errors.ErrUnsupported
}
