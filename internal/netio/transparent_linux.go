package netio

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// CheckTransparent reports why sockets cannot have the address of somebody else (SocketOptions.TransparentSource), or nil. It cannot see
// whether answers to such addresses are routed to this machine, and by it to itself.
func CheckTransparent() error {
	fd, err := openSocket(unix.AF_INET, SocketOptions{})
	if err != nil {
		return err
	}
	return closeAfter(fd, beTransparent(fd, unix.AF_INET))
}

// dialAs opens a socket that has the address of somebody else.
func (p *epollPoller) dialAs(to netip.AddrPort, o SocketOptions) (*epollSocket, error) {
	return p.open(to, o, func(fd, family int, to netip.AddrPort) error {
		if familyOf(o.TransparentSource) != family {
			return fmt.Errorf("as %s: %w: not of the peer's family", o.TransparentSource, ErrAddress)
		}
		if err := beTransparent(fd, family); err != nil {
			return err
		}
		// Somebody may be at two peers.
		if err := setOption(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
			return err
		}
		if err := bind(fd, family, o.TransparentSource); err != nil {
			return fmt.Errorf("as %s: %w", o.TransparentSource, err)
		}
		return connect(fd, family, to)
	})
}

// beTransparent allows a socket to be bound to an address that is not of this machine.
func beTransparent(fd, family int) error {
	level, name := unix.SOL_IP, unix.IP_TRANSPARENT
	if family == unix.AF_INET6 {
		level, name = unix.SOL_IPV6, unix.IPV6_TRANSPARENT
	}
	err := unix.SetsockoptInt(fd, level, name, 1)
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w: that needs the capability CAP_NET_ADMIN", err)
	}
	return err
}
