package netio_test

import (
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"tidegate/internal/netio"
)

// burst is the number of full datagrams that a stock RakNet server sends at once. Then it waits for acknowledgements.
const (
	burst     = 512
	burstSize = 1459
)

// TestRoomForABurst lets a server send its largest burst to dialed sockets of each kind, before their loop reads.
func TestRoomForABurst(t *testing.T) {
	prefix := netip.MustParsePrefix("127.66.0.0/16")
	for _, way := range []struct {
		name     string
		o        netio.SocketOptions
		again    bool // the socket was used before
		sessions int
	}{
		{"a socket of its own", netio.SocketOptions{}, false, 1},
		{"a socket that is used again", netio.SocketOptions{}, true, 1},
		{"a source address of its own", netio.SocketOptions{Sources: prefix}, false, 8},
		{"a shared socket", netio.SocketOptions{Shared: true}, false, 1},
	} {
		t.Run(way.name, func(t *testing.T) {
			eachBackend(t, func(t *testing.T, o netio.Options) {
				if o.Backend == netio.Portable && (way.o.Sources.IsValid() || runtime.GOOS != "linux") {
					t.Skip("the backend has none, or the system less room")
				}
				testBurst(t, o, way.o, way.again, way.sessions)
			})
		})
	}
}

func testBurst(t *testing.T, backend netio.Options, o netio.SocketOptions, again bool, sessions int) {
	if given, err := netio.GrantedBuffer(16 << 20); err != nil || given < 16<<20 {
		t.Skipf("the kernel gives %d bytes: %v", given, err)
	}
	server, proxy := newLoop(t, netio.Options{}), newLoop(t, backend)
	house := server.listen(loopback)
	dial := func() netio.Socket {
		s, err := proxy.Dial(house.Addr(), o)
		if err != nil {
			t.Fatal(err)
		}
		proxy.send(s, netip.AddrPort{}, "hello")
		proxy.Flush()
		return s
	}
	if again {
		dial().Close()
		server.untilReceived(1)
		server.received = nil
	}
	for range sessions {
		dial()
	}
	server.untilReceived(sessions)
	for _, hello := range server.received {
		for range burst {
			server.send(house, hello.from, strings.Repeat("x", burstSize))
		}
		server.Flush()
	}
	if lost := server.Stats().WouldBlock; lost > 0 {
		t.Fatalf("the server could not send %d", lost)
	}
	last := ""
	for last != "end" {
		server.send(house, server.received[0].from, "end")
		server.Flush()
		before := len(proxy.received)
		proxy.until("the burst", func() bool { return len(proxy.received) > before })
		last = proxy.received[len(proxy.received)-1].datagram
	}
	got := 0
	for _, r := range proxy.received {
		if len(r.datagram) == burstSize {
			got++
		}
	}
	if got != sessions*burst {
		t.Errorf("%d datagrams of %d came", got, sessions*burst)
	}
}
