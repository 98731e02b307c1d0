package examples

import (
	"bytes"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"tidegate/internal/proxyproto"
	"tidegate/internal/testkit/await"
)

// plain is a game server without a protocol that Tidegate knows. It returns every datagram, and remembers the client
// that the last PROXY protocol header named.
type plain struct {
	addr netip.AddrPort
	mu   sync.Mutex
	from netip.AddrPort
}

func servePlain(t *testing.T, at netip.AddrPort) *plain {
	t.Helper()
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	p := &plain{addr: addrOf(conn)}
	go func() {
		b := make([]byte, 2048)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			datagram := b[:n]
			if h, rest, err := proxyproto.Parse(datagram); err == nil {
				p.mu.Lock()
				p.from, datagram = h.Client, rest
				p.mu.Unlock()
			}
			_, _ = conn.WriteToUDPAddrPort(datagram, from) // the client repeats an unanswered datagram
		}
	}()
	return p
}

// named returns the client that the last header named.
func (p *plain) named() netip.AddrPort {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.from
}

// echo sends datagrams until one comes back, and returns the client's address.
func echo(t *testing.T, to netip.AddrPort, text string) netip.AddrPort {
	t.Helper()
	conn, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	echoOver(t, conn, text)
	return addrOf(conn)
}

func echoOver(t *testing.T, conn *net.UDPConn, text string) {
	t.Helper()
	b := make([]byte, 2048)
	for end := time.Now().Add(await.Patience); time.Now().Before(end); {
		if _, err := conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		if n, err := conn.Read(b); err == nil && bytes.Equal(b[:n], []byte(text)) {
			return
		}
	}
	t.Fatalf("%q did not come back", text)
}

func addrOf(conn *net.UDPConn) netip.AddrPort { return conn.LocalAddr().(*net.UDPAddr).AddrPort() }
