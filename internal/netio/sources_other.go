//go:build !linux

package netio

import (
	"errors"
	"net/netip"
)

// CheckSources reports why a prefix cannot be SocketOptions.Sources.
func CheckSources(netip.Prefix) error { return errors.ErrUnsupported }
