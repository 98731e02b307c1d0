package proxy_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/rtype"
	"tidegate/internal/netio"
	"tidegate/internal/testkit/await"
	"tidegate/internal/upstream"
	"tidegate/proxy/relay"
)

// startRType runs an R-Type game that admits every client, until kill or mute is called.
func startRType(t *testing.T, p codec.Protocol) (addr netip.AddrPort, kill, mute func()) {
	t.Helper()
	socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(anyPort))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	silent := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		games := make(map[netip.AddrPort]*udpPeer)
		for b := make([]byte, codec.MaxDatagram); ; {
			n, from, err := socket.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			select {
			case <-silent:
				continue
			default:
			}
			g := games[from]
			if g == nil {
				g = &udpPeer{socket: socket, to: from}
				if g.conn, _, err = p.Accept(time.Now(), from, b[:n], nil); err != nil || g.conn == nil {
					continue
				}
				games[from] = g
			} else {
				_ = g.conn.Receive(time.Now(), b[:n])
			}
			for ev, ok := g.conn.Poll(); ok; ev, ok = g.conn.Poll() {
				if ev.Kind == codec.Asked {
					g.conn.Admit(time.Now(), 1)
				}
				_ = g.conn.Send(time.Now(), codec.Message{Payload: []byte{0, 0, 0, 0, 1}}) // players wait for a message
			}
			g.flush()
		}
	}()
	kill = func() {
		_ = socket.Close()
		<-done
	}
	return socket.LocalAddr().(*net.UDPAddr).AddrPort(), kill, func() { close(silent) }
}

// TestRTypeServerIsLost covers a protocol without checks: only players' sessions show that a server is lost. The host
// of one server refuses datagrams, and another server is merely silent. The server's sessions end, or are held for
// another server. The next player gets another server.
func TestRTypeServerIsLost(t *testing.T) {
	t.Parallel()
	game := rtype.New(rtype.Options{
		Dialect: rtype.Game32, ServerTimeout: time.Second, HelloInterval: 50 * time.Millisecond, MaxHellos: 4,
	})
	players := rtype.New(rtype.Options{Dialect: rtype.Game32}) // players are more patient
	for _, test := range []struct {
		name string
		mute bool
		hold time.Duration
	}{{"killed", false, 0}, {"mute", true, 0}, {"killed and held", false, time.Minute},
		{"mute and held", true, time.Minute}} {
		t.Run(test.name, func(t *testing.T) {
			first, kill, mute := startRType(t, game)
			second, _, _ := startRType(t, game)
			r := startWith(t, netio.Auto, 1, players, game, first, func(s *relay.Settings) {
				route := s.Listeners[0].Route
				route.Bridge.AllowLossy, route.Failover.Hold = true, test.hold
				route.Upstream.Servers = []upstream.Target{{Addr: first}, {Addr: second}}
				route.Upstream.Options.RetryAfter = time.Minute
			})
			player := dialUDP(t, players, r.addr)
			player.await(codec.Connected)
			if got := r.sessions(); got[0] != 1 || got[1] != 0 {
				t.Fatalf("sessions %v, want the player at the first server", got)
			}
			end, kept := kill, 0
			if test.mute {
				end = mute
			}
			if test.hold > 0 {
				kept = 1
			}
			end()
			await.Until(t, "without the first server", func() bool {
				_ = player.conn.Send(time.Now(), codec.Message{Payload: []byte{4}}) // a key
				player.flush()
				got := r.sessions()
				return got[0] == 0 && got[1] == kept
			})
			next := dialUDP(t, players, r.addr)
			next.await(codec.Connected)
			if got := r.sessions(); got[0] != 0 || got[1] != kept+1 {
				t.Errorf("sessions %v, want the next player at the second server", got)
			}
			if s := r.server.Upstreams()[0].Servers[0]; s.State != upstream.Resting {
				t.Errorf("the lost server is %v, %q", s.State, s.Cause)
			}
		})
	}
}
