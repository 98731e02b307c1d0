package netio

import (
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
