package doctor

import (
	"net"
	"net/netip"
	"syscall"
)

// ipv6MTU is IPV6_MTU of Linux, which the package syscall lacks.
const ipv6MTU = 24

// pathMTU asks the kernel for the MTU of the route to an address. It sends nothing.
func pathMTU(addr netip.AddrPort) (mtu int, err error) {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(addr))
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	level, name := syscall.IPPROTO_IP, syscall.IP_MTU
	if addr.Addr().Is6() && !addr.Addr().Is4In6() {
		level, name = syscall.IPPROTO_IPV6, ipv6MTU
	}
	var failed error
	err = raw.Control(func(fd uintptr) { mtu, failed = syscall.GetsockoptInt(int(fd), level, name) })
	if err == nil {
		err = failed
	}
	return mtu, err
}

// unsynchronised is TIME_ERROR of Linux: no time server sets the clock.
const unsynchronised = 5

func clockOff() (off, known bool) {
	var status syscall.Timex // asks only
	state, err := syscall.Adjtimex(&status)
	return state == unsynchronised, err == nil
}
