package netio

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSockaddr(t *testing.T) {
	for _, c := range []struct {
		addr   string
		family int
		length uint32
		back   string // as read again
	}{
		{"192.0.2.1:7777", unix.AF_INET, unix.SizeofSockaddrInet4, "192.0.2.1:7777"},
		{"[::ffff:192.0.2.1]:7777", unix.AF_INET, unix.SizeofSockaddrInet4, "192.0.2.1:7777"},
		{"192.0.2.1:7777", unix.AF_INET6, unix.SizeofSockaddrInet6, "192.0.2.1:7777"},
		{"[2001:db8::1]:65535", unix.AF_INET6, unix.SizeofSockaddrInet6, "[2001:db8::1]:65535"},
		{"[fe80::1%7]:1", unix.AF_INET6, unix.SizeofSockaddrInet6, "[fe80::1%7]:1"},
		{"[fe80::1%lo]:1", unix.AF_INET6, unix.SizeofSockaddrInet6, "[fe80::1%1]:1"},
		{"[fe80::1%no-such-interface]:1", unix.AF_INET6, unix.SizeofSockaddrInet6, "[fe80::1]:1"},
	} {
		sa := sockaddr{Flowinfo: 1, Scope_id: 99} // left by another datagram
		if n := putSockaddr(&sa, netip.MustParseAddrPort(c.addr), c.family); n != c.length {
			t.Errorf("putSockaddr(%s) = %d, want %d", c.addr, n, c.length)
		}
		if got := addrPort(&sa).String(); got != c.back {
			t.Errorf("%s came back as %s, want %s", c.addr, got, c.back)
		}
	}
}

func TestSockaddrOfTheWrongFamily(t *testing.T) {
	var sa sockaddr
	for _, addr := range []netip.AddrPort{{}, netip.MustParseAddrPort("[2001:db8::1]:1")} {
		if n := putSockaddr(&sa, addr, unix.AF_INET); n != 0 {
			t.Errorf("putSockaddr(%s) for IPv4 = %d, want 0", addr, n)
		}
	}
}

// TestSockaddrPortOrder checks that the port is big-endian on every machine.
func TestSockaddrPortOrder(t *testing.T) {
	var sa sockaddr
	putSockaddr(&sa, netip.MustParseAddrPort("[::1]:258"), unix.AF_INET6)
	if got := binary.NativeEndian.AppendUint16(nil, sa.Port); got[0] != 1 || got[1] != 2 {
		t.Errorf("port in memory %v, want 1, 2", got)
	}
}
