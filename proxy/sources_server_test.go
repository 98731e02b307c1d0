package proxy_test

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/codec"
	"tidegate/internal/lossylink"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/rakserver"
	"tidegate/internal/upstream"
	"tidegate/proxy/relay"
)

// TestSourcesOfSessions asserts that each session gets its own answers, in each mode and with each way to share
// sockets. With a prefix of sources, the server sees addresses of that prefix.
func TestSourcesOfSessions(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has them")
	}
	prefix := netip.MustParsePrefix("127.64.0.0/10")
	for _, mode := range []policy.Mode{policy.ModeTerminate, policy.ModeRelay} {
		for _, carrier := range []relay.Transport{{Sources: prefix}, {Sources: prefix, Probes: true}, {Pooled: true}} {
			t.Run(fmt.Sprintf("mode %d, %+v", mode, carrier), func(t *testing.T) {
				seen := make(chan netip.AddrPort, 10)
				server := rakserver.Start(t, func(conn *gork.Conn) {
					seen <- netip.MustParseAddrPort(conn.RemoteAddr().String())
					_ = echo(conn)
				})
				r := startWith(t, netio.Auto, 2, bedrock(), bedrock(), server, func(s *relay.Settings) {
					s.Listeners[0].Route.Mode = mode
					s.Listeners[0].Route.Upstream.Transport = carrier
				})
				for i := range 3 {
					play(t, r.addr, 2*i)
				}
				first, second, third := <-seen, <-seen, <-seen
				if first == second || second == third || first == third {
					t.Fatalf("sessions come from %v, %v, %v", first, second, third)
				}
				if own := carrier.Sources.IsValid(); own != prefix.Contains(first.Addr()) {
					t.Errorf("a session comes from %v", first)
				}
			})
		}
	}
}

// play lets a go-raknet client send a message and receive its echo. The connection stays until the test ends.
func play(t *testing.T, to netip.AddrPort, first int) {
	t.Helper()
	conn, err := gork.DialTimeout(to.String(), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	message := append([]byte{0x90 + byte(first)}, make([]byte, 3000)...)
	if _, err := conn.Write(message); err != nil {
		t.Fatal(err)
	}
	if got, err := conn.ReadPacket(); err != nil || !bytes.Equal(got, message) {
		t.Fatalf("%d bytes came back, %v", len(got), err)
	}
}

// TestPlayersKeepTheirSource asserts that a player that returns from another port has the same address at the server.
// This holds while that address is free.
func TestPlayersKeepTheirSource(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has them")
	}
	server, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	to := server.LocalAddr().(*net.UDPAddr).AddrPort()
	r := startWith(t, netio.Auto, 1, relay.Any, relay.Any, to, func(s *relay.Settings) {
		route := s.Listeners[0].Route
		route.Mode = policy.ModeRelay
		route.Upstream.Transport.Sources = netip.MustParsePrefix("127.64.0.0/10")
		route.Upstream.Servers = []upstream.Target{{Addr: to}}
		s.HandshakeTimeout = 500 * time.Millisecond
	})
	come := func(from string) netip.Addr {
		client, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.ParseIP(from)}, net.UDPAddrFromAddrPort(r.addr))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = client.Close() }()
		if _, err := client.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		_ = server.SetReadDeadline(time.Now().Add(patience))
		_, source, err := server.ReadFromUDPAddrPort(make([]byte, codec.MaxDatagram))
		if err != nil {
			t.Fatal(err)
		}
		return source.Addr()
	}
	first, other := come("127.0.0.1"), come("127.0.0.2")
	if first == other {
		t.Errorf("two players come from %v", first)
	}
	again := come("127.0.0.1")
	if n := len(r.server.Snapshot().Sessions); n == 3 && again == first { // on a slow machine one may have ended
		t.Errorf("two sessions at a time come from %v", first)
	}
	await.Until(t, "rid of sessions without answers", func() bool { return len(r.server.Snapshot().Sessions) == 0 })
	if again := come("127.0.0.1"); again != first {
		t.Errorf("a player comes from %v, and again from %v", first, again)
	}
}

// TestLostSecondReply loses the first second reply of a go-raknet server. The server never repeats it, and answers
// that address no more. The session asks from another address, with each way to reach servers.
func TestLostSecondReply(t *testing.T) {
	prefix := netip.MustParsePrefix("127.65.0.0/16")
	for _, way := range []struct {
		backend netio.Backend
		carrier relay.Transport
	}{
		{netio.Auto, relay.Transport{}}, {netio.Auto, relay.Transport{Probes: true}}, {netio.Portable, relay.Transport{}},
		{netio.Auto, relay.Transport{Sources: prefix}}, {netio.Auto, relay.Transport{Pooled: true}},
	} {
		t.Run(fmt.Sprintf("backend %d, %+v", way.backend, way.carrier), func(t *testing.T) {
			if runtime.GOOS != "linux" && (way.carrier != relay.Transport{}) {
				t.Skip("only Linux has them")
			}
			seen := make(chan netip.AddrPort, 10)
			server := rakserver.Start(t, func(conn *gork.Conn) {
				seen <- netip.MustParseAddrPort(conn.RemoteAddr().String())
				_ = echo(conn)
			})
			lost := 0
			path, err := lossylink.StartAt(netip.MustParseAddrPort("127.0.0.1:0"), server, 10, lossylink.Loss{
				Chosen: func(toServer bool, b []byte) bool {
					const openConnectionReply2 = 0x08
					if toServer || b[0] != openConnectionReply2 || lost > 0 {
						return false
					}
					lost++
					return true
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer path.Stop()
			r := startWith(t, way.backend, 1, bedrock(), bedrock(), path.Addr(), func(s *relay.Settings) {
				s.Listeners[0].Route.Upstream.Transport = way.carrier
			})
			play(t, r.addr, 0)
			<-seen
			if got := r.server.Snapshot().Counters; got.Redialed != 1 || got.Established != 1 {
				t.Errorf("redialed %d times, %d sessions established", got.Redialed, got.Established)
			}
		})
	}
}
