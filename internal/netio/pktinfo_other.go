//go:build !linux && !darwin

package netio

import (
	"errors"
	"net"
	"net/netip"
)

const localRoom = 0

// askLocal fails: on this system the destination addresses of datagrams stay unknown.
func askLocal(*net.UDPConn) error { return errors.ErrUnsupported }

func localOf([]byte) (at netip.Addr) { return at }

func appendSource(b []byte, _ netip.Addr) []byte { return b }
