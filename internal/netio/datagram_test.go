package netio_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"tidegate/internal/netio"
)

func TestEcho(t *testing.T) {
	for _, c := range []struct {
		name         string
		listen, dial string // addresses without ports
		peer         string // address of the dialing side at the listening side
	}{
		{"IPv4", "127.0.0.1:0", "127.0.0.1", "127.0.0.1"},
		{"IPv6", "[::1]:0", "::1", "::1"},
		{"IPv4 to an IPv6 socket", "[::]:0", "127.0.0.1", "127.0.0.1"},
		{"mapped", "127.0.0.1:0", "::ffff:127.0.0.1", "127.0.0.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachBackend(t, func(t *testing.T, o netio.Options) {
				l := newLoop(t, o)
				server := l.listen(netip.MustParseAddrPort(c.listen))
				client := l.dial(netip.AddrPortFrom(netip.MustParseAddr(c.dial), server.Addr().Port()))
				seen := netip.AddrPortFrom(netip.MustParseAddr(c.peer), client.Addr().Port())

				l.send(client, netip.AddrPort{}, "there")
				l.Flush()
				l.untilReceived(1)
				if got, want := l.received[0], (received{server, seen, "there"}); got != want {
					t.Fatalf("server received %+v, want %+v", got, want)
				}
				l.send(server, seen, "and back")
				l.Flush()
				l.untilReceived(2)
				if got, want := l.received[1], (received{client, client.Peer(), "and back"}); got != want {
					t.Fatalf("client received %+v, want %+v", got, want)
				}
			})
		})
	}
}

func TestSocketKnowsItsAddressesAndOwner(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		server := l.listen(loopback)
		client := l.dial(server.Addr())
		if server.Addr().Port() == 0 || server.Addr().Addr() != loopback.Addr() {
			t.Errorf("server.Addr() = %s", server.Addr())
		}
		if server.Peer().IsValid() {
			t.Errorf("server.Peer() = %s, want none", server.Peer())
		}
		if client.Peer() != server.Addr() {
			t.Errorf("client.Peer() = %s, want %s", client.Peer(), server.Addr())
		}
		if server.Owner() != nil {
			t.Errorf("Owner() = %v before SetOwner", server.Owner())
		}
		server.SetOwner(l)
		if server.Owner() != any(l) {
			t.Errorf("Owner() = %v, want what was set", server.Owner())
		}
	})
}

func TestInvalidAddresses(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		if _, err := l.Listen(netip.AddrPort{}, netio.SocketOptions{}); err == nil {
			t.Error("Listen on no address: no error")
		}
		if _, err := l.Dial(netip.AddrPort{}, netio.SocketOptions{}); err == nil {
			t.Error("Dial to no address: no error")
		}
		taken := l.listen(loopback)
		if _, err := l.Listen(taken.Addr(), netio.SocketOptions{}); err == nil {
			t.Error("Listen on an address in use: no error")
		}
		for _, to := range []netip.AddrPort{{}, netip.MustParseAddrPort("[::1]:9")} {
			errors := l.Stats().Errors
			l.send(taken, to, "x")
			l.Flush()
			if got := l.Stats().Errors - errors; got != 1 {
				t.Errorf("Send to %s from an IPv4 socket: %d errors counted, want 1", to, got)
			}
		}
	})
}

// TestOrderOfEachSocket checks that each of two sockets keeps the order of its datagrams, over several full batches.
func TestOrderOfEachSocket(t *testing.T) {
	const each = 300
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		server := l.listen(loopback)
		clients := []netio.Socket{l.dial(server.Addr()), l.dial(server.Addr())}
		for i := range each {
			for _, c := range clients {
				l.send(c, netip.AddrPort{}, fmt.Sprint(i))
			}
		}
		l.Flush()
		l.untilReceived(each * len(clients))
		next := map[netip.AddrPort]int{}
		for _, r := range l.received {
			if want := fmt.Sprint(next[r.from]); r.datagram != want {
				t.Fatalf("from %s: %s, want %s", r.from, r.datagram, want)
			}
			next[r.from]++
		}
	})
}

// TestSendCopiesForeignBytes checks that a queued datagram does not change when the caller reuses its bytes.
func TestSendCopiesForeignBytes(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		server := l.listen(loopback)
		client := l.dial(server.Addr())
		mine := []byte("first")
		l.Send(client, netip.AddrPort{}, mine)
		copy(mine, "xxxxx")
		l.send(client, netip.AddrPort{}, "second")
		l.Flush()
		l.untilReceived(2)
		if l.received[0].datagram != "first" || l.received[1].datagram != "second" {
			t.Errorf("received %q, %q", l.received[0].datagram, l.received[1].datagram)
		}
	})
}

func TestSizes(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		server := l.listen(loopback)
		client := l.dial(server.Addr())
		for _, n := range []int{0, 1, netio.MaxDatagram - 1, netio.MaxDatagram} {
			l.send(client, netip.AddrPort{}, strings.Repeat("x", n))
			l.Flush()
			l.received = nil
			l.untilReceived(1)
			if got := len(l.received[0].datagram); got != n {
				t.Errorf("received %d bytes, want %d", got, n)
			}
		}
		in, out := l.Stats().In, l.Stats().Out
		if want := uint64(2 * netio.MaxDatagram); in.Datagrams != 4 || in.Bytes != want || out.Datagrams != 4 ||
			out.Bytes != want {
			t.Errorf("in %+v, out %+v; want 4 datagrams, %d bytes", in, out, want)
		}
	})
}

func TestOutgoingTooLarge(t *testing.T) {
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		server := l.listen(loopback)
		client := l.dial(server.Addr())
		l.send(client, netip.AddrPort{}, strings.Repeat("x", netio.MaxDatagram+1))
		l.send(client, netip.AddrPort{}, "after")
		l.Flush()
		l.untilReceived(1)
		if l.received[0].datagram != "after" {
			t.Errorf("received %q, want only what came after the one too large", l.received[0].datagram)
		}
		if got := l.Stats().TooLarge; got != 1 {
			t.Errorf("TooLarge = %d, want 1", got)
		}
	})
}

func TestManySockets(t *testing.T) {
	const clients = 600 // more than the sockets of one Wait
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		server := l.listen(loopback)
		l.onDatagram = func(s netio.Socket, from netip.AddrPort, datagram []byte) {
			if s == server {
				l.Send(server, from, datagram)
			}
		}
		for i := range clients {
			c := l.dial(server.Addr())
			c.SetOwner(i)
			l.send(c, netip.AddrPort{}, fmt.Sprint(i))
		}
		l.Flush()
		answers := map[int]int{}
		l.untilReceived(2 * clients)
		for _, r := range l.received {
			if r.socket == server {
				continue
			}
			if owner := r.socket.Owner().(int); r.datagram != fmt.Sprint(owner) {
				t.Fatalf("client %d was answered %q", owner, r.datagram)
			} else {
				answers[owner]++
			}
		}
		if len(answers) != clients {
			t.Errorf("%d clients were answered, want %d", len(answers), clients)
		}
	})
}

// TestFloodedSocketDoesNotStarveAnother floods one socket without end, and checks that the other is served.
func TestFloodedSocketDoesNotStarveAnother(t *testing.T) {
	const enough = 20000 // datagrams of the flood; a fair turn takes a few hundred
	eachBackend(t, func(t *testing.T, o netio.Options) {
		l := newLoop(t, o)
		flooded, quiet := l.listen(loopback), l.listen(loopback)
		client, flood := l.dial(quiet.Addr()), l.dial(flooded.Addr())
		served := false
		l.onDatagram = func(s netio.Socket, _ netip.AddrPort, _ []byte) {
			if served = served || s == quiet; served {
				return
			}
			if len(l.received) > enough {
				t.Fatalf("%d datagrams of a flooded socket were received before one of another", enough)
			}
			l.send(flood, netip.AddrPort{}, "flood") // each one causes another
			l.Flush()
		}
		for range 1000 {
			l.send(flood, netip.AddrPort{}, "flood")
		}
		l.send(client, netip.AddrPort{}, "me too")
		l.Flush()
		l.until("the quiet socket's datagram", func() bool { return served })
	})
}
