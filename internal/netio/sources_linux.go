package netio

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// CheckSources returns an error if a prefix cannot be SocketOptions.Sources on this machine as it is configured now.
// A route of type local must cover the prefix.
func CheckSources(prefix netip.Prefix) error {
	family := unix.AF_INET
	if prefix.Addr().Is6() {
		family = unix.AF_INET6
	}
	table, err := syscall.NetlinkRIB(unix.RTM_GETROUTE, family)
	if err != nil {
		return os.NewSyscallError("netlink", err)
	}
	messages, err := syscall.ParseNetlinkMessage(table)
	if err != nil {
		return os.NewSyscallError("netlink", err)
	}
	for i := range messages {
		if route, ok := localRoute(&messages[i]); ok && route.Bits() <= prefix.Bits() && route.Contains(prefix.Addr()) {
			return nil
		}
	}
	return fmt.Errorf("%s is not local to this machine: ip route add local %s dev lo", prefix, prefix)
}

// localRoute returns the destination of a route of type local.
func localRoute(m *syscall.NetlinkMessage) (netip.Prefix, bool) {
	// struct rtmsg: family, bits of the destination, three more fields, and the type at offset 7.
	if m.Header.Type != unix.RTM_NEWROUTE || len(m.Data) < unix.SizeofRtMsg || m.Data[7] != unix.RTN_LOCAL {
		return netip.Prefix{}, false
	}
	attributes, err := syscall.ParseNetlinkRouteAttr(m)
	if err != nil {
		return netip.Prefix{}, false
	}
	for _, a := range attributes {
		if a.Attr.Type != unix.RTA_DST {
			continue
		}
		if ip, ok := netip.AddrFromSlice(a.Value); ok {
			return netip.PrefixFrom(ip, int(m.Data[1])), true
		}
	}
	return netip.Prefix{}, false
}

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
