package proxy_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"tidegate/internal/testkit/await"
	"tidegate/proxy"
	"tidegate/proxy/relay"
)

// heir gives copies to a successor in this process.
type heir struct {
	t     *testing.T
	to    *proxy.Server
	given func() // is called once the successor has the sockets
}

func (h *heir) GiveSockets(b proxy.GivenSockets) error {
	b.Descriptors = duplicates(h.t, b.Descriptors)
	err := h.to.TakeSockets(b)
	h.given()
	return err
}

func (h *heir) GiveSessions(b proxy.CopiedSessions) error { return h.to.TakeCopies(b) }

// TestDescriptorUsedAgainDuringCopies ends a session after the successor has got its socket. Its descriptor goes to the
// socket of a new session before that is copied. The new session must go on with its own socket.
func TestDescriptorUsedAgainDuringCopies(t *testing.T) {
	echo := startEcho(t)
	now := echo.behind(t, func(*relay.Transport) {})
	stays, leaves := clientOf(t, now.addr), clientOf(t, now.addr)
	at := echo.hears(t, stays)
	echo.hears(t, stays) // established by now
	first := echo.hears(t, leaves)
	echo.hears(t, leaves)
	number := descriptorOf(t, first, echo.addr())
	var joining []*net.UDPConn // they have their own descriptors before
	for range 16 {
		joining = append(joining, clientOf(t, now.addr))
	}
	var joins *net.UDPConn
	var source netip.AddrPort
	o := proxy.Options{Loops: 1, Log: zerolog.Nop()}
	successor := copiedTo(t, now.server, now.settings, o, func(to *proxy.Server) {
		err := now.server.Precopy(t.Context(), &heir{t, to, func() {
			ended := now.server.Snapshot().Sessions[1].ID
			if err := now.server.Ask(t.Context(), &relay.KickSession{ID: ended}); err != nil {
				t.Error(err)
			}
			await.Until(t, "rid of the session", func() bool { return len(now.server.Snapshot().Sessions) == 1 })
			for _, joins = range joining { // another goroutine may take the descriptor for a moment
				source = echo.hears(t, joins)
				echo.hears(t, joins)
				if descriptorOf(t, source, echo.addr()) == number {
					return
				}
			}
			t.Error("the descriptor is not used again")
		}})
		if err != nil {
			t.Error(err)
		}
	})
	next := follow(t, now, successor)
	for range 2 {
		if again := echo.hears(t, joins); again != source {
			t.Errorf("the server sees %v after %v", again, source)
		}
		if again := echo.hears(t, stays); again != at {
			t.Errorf("the server sees %v after %v", again, at)
		}
		next = succeed(t, next, next.settings, 1)
	}
}

// descriptorOf returns this process's lowest descriptor of a UDP socket from an address to a peer.
func descriptorOf(t *testing.T, from, peer netip.AddrPort) int {
	t.Helper()
	port := func(a unix.Sockaddr, err error) uint16 {
		if at, ok := a.(*unix.SockaddrInet4); ok && err == nil {
			return uint16(at.Port)
		}
		return 0
	}
	for fd := range 1 << 12 {
		if port(unix.Getsockname(fd)) == from.Port() && port(unix.Getpeername(fd)) == peer.Port() {
			return fd
		}
	}
	t.Fatalf("no socket from %v to %v", from, peer)
	return -1
}
