package netio

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
)

// TestControlMessages writes and reads the control messages of each system, also of 32-bit ones, and compares those of
// Windows with its headers: WSACMSGHDR, IN_PKTINFO and IN6_PKTINFO.
func TestControlMessages(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("the expected bytes begin with the lowest one")
	}
	four, six := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::9")
	sixBytes := six.As16()
	want := map[int][2][]byte{
		4: {{20, 0, 0, 0, 0, 0, 0, 0, 19, 0, 0, 0, 192, 0, 2, 7, 0, 0, 0, 0},
			slices.Concat([]byte{32, 0, 0, 0, 41, 0, 0, 0, 19, 0, 0, 0}, sixBytes[:], make([]byte, 4))},
		8: {{24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 19, 0, 0, 0, 192, 0, 2, 7, 0, 0, 0, 0},
			slices.Concat([]byte{36, 0, 0, 0, 0, 0, 0, 0, 41, 0, 0, 0, 19, 0, 0, 0}, sixBytes[:], make([]byte, 8))},
	}
	for name, c := range allControls {
		for _, c.word = range []int{4, 8} {
			for i, at := range []netip.Addr{four, six} {
				message := c.appendSource(nil, at)
				if name == "windows" && !slices.Equal(message, want[c.word][i]) {
					t.Errorf("%d bits, %s:\n%v, want\n%v", 8*c.word, at, message, want[c.word][i])
				}
				foreign := c.append(nil, 17, 103, []byte{1, 2})
				if got := c.local(append(foreign, message...)); got != at {
					t.Errorf("%s, %d bits: read %s, want %s", name, 8*c.word, got, at)
				}
				if i == 0 { // an IPv6 socket tells an IPv4 destination twice, or once
					mapped := netip.AddrFrom16(at.As16())
					if got := c.local(append(c.appendSource(nil, mapped), message...)); got != at {
						t.Errorf("%s, %d bits: read %s of both, want %s", name, 8*c.word, got, at)
					}
					if got := c.local(c.appendSource(nil, mapped)); got != at {
						t.Errorf("%s, %d bits: read %s of a mapped one, want %s", name, 8*c.word, got, at)
					}
				}
				for n := range message { // parts of messages, and wrong lengths, tell nothing and end
					_ = c.local(message[:n])
					wrong := slices.Clone(message)
					wrong[0] = byte(n)
					_ = c.local(wrong)
				}
				if 2*len(message) > localRoom {
					t.Errorf("%s: %d bytes, and room for %d", name, 2*len(message), localRoom)
				}
			}
		}
	}
}

// TestBroadcastIsAnswered sends by the local socket of an address that the machine does not have, as a broadcast's.
func TestBroadcastIsAnswered(t *testing.T) {
	p := newPortable(Options{})
	defer func() { _ = p.Close() }()
	s, err := p.Listen(netip.MustParseAddrPort("0.0.0.0:0"), SocketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), s.Addr().Port())
	p.Send(s.(LocalSockets).LocalSocket(netip.MustParseAddr("203.0.113.9")), to, []byte("hi"))
	if got := p.Stats(); got.Out.Datagrams != 1 || got.Errors != 0 {
		t.Errorf("%+v, want one datagram sent", got)
	}
}
