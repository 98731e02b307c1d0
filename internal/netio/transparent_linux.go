package netio

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// CheckTransparent returns an error if sockets cannot use foreign addresses (SocketOptions.TransparentSource). It
// cannot see whether answers to such addresses are routed to this machine, and by it to itself.
func CheckTransparent() error {
	fd, err := openSocket(unix.AF_INET, SocketOptions{})
	if err != nil {
		return err
	}
	return closeAfter(fd, setTransparent(fd, unix.AF_INET))
}

// dialTransparent opens a socket with a foreign source address.
func (p *epollPoller) dialTransparent(to netip.AddrPort, o SocketOptions) (*epollSocket, error) {
	return p.open(to, o, func(fd, family int, to netip.AddrPort) error {
		if familyOf(o.TransparentSource) != family {
			return fmt.Errorf("source %s: %w: its family is not the peer's", o.TransparentSource, ErrAddress)
		}
		if err := setTransparent(fd, family); err != nil {
			return err
		}
		// One client may be connected to two peers.
		if err := setOption(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
			return err
		}
		if err := bind(fd, family, o.TransparentSource); err != nil {
			return fmt.Errorf("bind to source %s: %w", o.TransparentSource, err)
		}
		return connect(fd, family, to)
	})
}

// setTransparent allows a socket to bind to a foreign address.
func setTransparent(fd, family int) error {
	level, name := unix.SOL_IP, unix.IP_TRANSPARENT
	if family == unix.AF_INET6 {
		level, name = unix.SOL_IPV6, unix.IPV6_TRANSPARENT
	}
	err := unix.SetsockoptInt(fd, level, name, 1)
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w: missing capability CAP_NET_ADMIN", err)
	}
	return err
}
