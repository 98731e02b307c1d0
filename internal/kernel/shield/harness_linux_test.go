package shield

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"tidegate/internal/kernel"
	"tidegate/internal/testkit/await"
)

// newShield creates a Shield, or skips the test if the kernel refuses.
func newShield(t testing.TB, o Options) *Shield {
	t.Helper()
	o.Bans, o.Known = max(o.Bans, 64), max(o.Known, 64)
	if o.Sources == 0 {
		o.Sources = 1 << 16 // so that two sources hardly ever share a place
	}
	s, err := New(o)
	if unavailable := (*kernel.Unavailable)(nil); errors.As(err, &unavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func ban(t testing.TB, s *Shield, prefixes ...string) {
	t.Helper()
	var parsed []netip.Prefix
	for _, p := range prefixes {
		parsed = append(parsed, netip.MustParsePrefix(p))
	}
	if left, err := s.SetBans(parsed); err != nil || left != 0 {
		t.Fatalf("SetBans: %d left, %v", left, err)
	}
}

func tally(t testing.TB, s *Shield) Counters {
	t.Helper()
	c, err := s.Counters()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func listen(t testing.TB, addr string) *net.UDPConn {
	t.Helper()
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(addr)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// sendFrom sends one datagram from one of this host's addresses to another.
func sendFrom(t testing.TB, from string, to net.Addr, payload []byte) {
	t.Helper()
	port := netip.MustParseAddrPort(to.String()).Port()
	source := net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))
	target := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(port)}
	if source.AddrPort().Addr().Is6() {
		target.IP = net.IPv6loopback
	}
	conn, err := net.DialUDP("udp", source, target)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(payload); err != nil {
		t.Fatal(err)
	}
}

// received returns the datagrams that reach a socket. It waits for the certain ones as long as a busy machine takes,
// and briefly for others.
func received(t testing.TB, conn *net.UDPConn, certain int) (all []string) {
	t.Helper()
	for b := make([]byte, 2000); ; {
		patience := 20 * time.Millisecond
		if len(all) < certain {
			patience = await.Patience
		}
		if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		n, err := conn.Read(b)
		if err != nil {
			return all
		}
		all = append(all, string(b[:n]))
	}
}
