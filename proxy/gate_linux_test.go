package proxy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/internal/kernel/shield"
	"tidegate/internal/policy"
	"tidegate/internal/testkit/await"
	"tidegate/internal/upstream"
	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
	"tidegate/session"
)

// besieged is a running proxy with a relaying route to an echo server.
type besieged struct {
	*Server
	t  *testing.T
	at *net.UDPAddr
}

// newGates returns a Kernel that distinguishes players from strangers.
func newGates(t *testing.T, loops int) Kernel {
	t.Helper()
	s, err := shield.New(shield.Options{Sources: 1, Bans: 1, Known: 100, Loops: loops})
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return Kernel{Shield: s}
}

// besiege starts a besieged proxy with kernel offload.
func besiege(t *testing.T, loops int, k Kernel) *besieged {
	t.Helper()
	server, err := Listen(besiegedSettings(echoServer(t)), Options{Loops: loops, Log: zerolog.Nop(), Kernel: k})
	if err != nil {
		t.Fatal(err)
	}
	return besiegeBy(t, server)
}

// besiegeBy runs a besieged proxy.
func besiegeBy(t *testing.T, server *Server) *besieged {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return &besieged{server, t, net.UDPAddrFromAddrPort(server.Addrs()[0])}
}

func besiegedSettings(to netip.AddrPort) *relay.Settings {
	route := &relay.Route{Name: "arena", Mode: policy.ModeRelay, Upstream: &relay.Upstream{
		Name: "arena", Protocol: relay.Any, Servers: []upstream.Target{{Addr: to}},
		Options: upstream.Options{RetryAfter: 5 * time.Second},
	}}
	return &relay.Settings{
		Listeners: []relay.Listener{{
			Name: "play", Addr: netip.MustParseAddrPort("127.0.0.1:0"), Protocols: []codec.Protocol{relay.Any}, Route: route,
		}},
		Limits: session.Limits{Sessions: 100, HalfOpen: 50}, HandshakeTimeout: 10 * time.Second,
		IdleTimeout: 30 * time.Second, DrainTimeout: time.Second,
	}
}

func echoServer(t *testing.T) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	makeRoom(t, conn)
	go func() {
		for b := make([]byte, 2000); ; {
			n, from, err := conn.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			_, _ = conn.WriteToUDPAddrPort(b[:n], from)
		}
	}()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

// makeRoom gives a socket room for a whole flood, even if it is not read for long. A loss there would not be the
// proxy's. Without the right to enlarge it, the socket keeps its room.
func makeRoom(t *testing.T, conn *net.UDPConn) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	const room = 16 << 20
	err = raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUFFORCE,
			room)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (b *besieged) dial() *net.UDPConn {
	b.t.Helper()
	conn, err := net.DialUDP("udp", nil, b.at)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// says reports whether the server echoes a client's text. The client repeats a lost text, as every protocol's clients
// do.
func (b *besieged) says(conn *net.UDPConn, text string) bool {
	b.t.Helper()
	for limit := time.Now().Add(await.Patience); time.Now().Before(limit); {
		if _, err := conn.Write([]byte(text)); err != nil {
			b.t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		reply := make([]byte, 2000)
		if n, err := conn.Read(reply); err == nil && string(reply[:n]) == text {
			return true
		}
	}
	return false
}

// player returns a client with an established session.
func (b *besieged) player() *net.UDPConn {
	b.t.Helper()
	conn := b.dial()
	if !b.says(conn, "hello") || !b.says(conn, "play") {
		b.t.Fatal("a player does not get in")
	}
	return conn
}

// blind stops all loops from reading until the test calls see.
func (b *besieged) blind() (see func()) {
	sighted := make(chan struct{})
	for _, l := range b.loops {
		stands := make(chan struct{})
		l.post(stats.WorkKernel, func(*relay.Relay, time.Time) {
			close(stands)
			<-sighted
		})
		<-stands
	}
	return func() { close(sighted) }
}

// flood sends more datagrams than the listener's buffer holds, from many ports. The buffer holds more than 4,000.
func (b *besieged) flood() {
	b.t.Helper()
	for range 16 {
		conn := b.dial()
		for range 500 {
			if _, err := conn.Write([]byte("flood")); err != nil {
				b.t.Fatal(err)
			}
		}
		_ = conn.Close()
	}
}

// longFlood bounds the duration of a flood. The gate passes 512 strangers to a loop that does not read every 100 ms.
// In a longer flood these fill the buffer.
const longFlood = 500 * time.Millisecond

// heardInAFlood returns how many of a player's 100 datagrams come back. The player sends them while no loop reads,
// after strangers have filled the buffer. heardInAFlood waits for want answers. It repeats a flood that took too
// long.
func (b *besieged) heardInAFlood(player *net.UDPConn, want int) (n int) {
	b.t.Helper()
	for range 5 {
		see, began := b.blind(), time.Now()
		b.flood()
		for range 100 {
			if _, err := player.Write([]byte("play")); err != nil {
				b.t.Fatal(err)
			}
		}
		took := time.Since(began)
		see()
		if n = b.hearsTimes(player, want); n == want || took < longFlood {
			break
		}
		b.t.Logf("a flood of %v: %d came through", took, n)
	}
	return n
}

// hearsTimes returns the number of datagrams that a player receives. It waits for want of them.
func (b *besieged) hearsTimes(player *net.UDPConn, want int) (n int) {
	for reply := make([]byte, 100); ; n++ {
		patience := await.Patience
		if n >= want {
			patience = 300 * time.Millisecond
		}
		_ = player.SetReadDeadline(time.Now().Add(patience))
		if _, err := player.Read(reply); err != nil {
			return n
		}
	}
}

// TestPlayersPassAFlood fills the buffer with strangers' datagrams while no loop reads. A player's later datagrams
// find room only if the kernel knows the player.
func TestPlayersPassAFlood(t *testing.T) {
	for _, test := range []struct {
		loops int
		gated bool
		want  int
	}{{1, true, 100}, {2, true, 100}, {1, false, 0}} {
		t.Run(fmt.Sprintf("%d loops, gated %v", test.loops, test.gated), func(t *testing.T) {
			var k Kernel
			if test.gated {
				k = newGates(t, test.loops)
			}
			b := besiege(t, test.loops, k)
			got := b.heardInAFlood(b.player(), test.want)
			if got != test.want {
				t.Errorf("%d of 100 datagrams came through, want %d", got, test.want)
			}
			if !b.says(b.dial(), "hello") {
				t.Error("a newcomer does not get in after the flood")
			}
		})
	}
}

// TestWhoIsKnown checks the kernel's known clients as sessions begin and end, and across a reload.
func TestWhoIsKnown(t *testing.T) {
	b := besiege(t, 1, newGates(t, 1))
	known := func(want int) {
		t.Helper()
		if got := b.Snapshot().Kernel.Known; got != want {
			t.Fatalf("%d are known, want %d", got, want)
		}
	}
	known(0)
	first, second := b.player(), b.player()
	known(2)
	if !b.says(b.dial(), "hello") {
		t.Error("a newcomer is not heard")
	}
	known(2) // a client with a single datagram may be forged
	next := *b.settings
	if err := b.Reload(&next); err != nil {
		t.Fatal(err)
	}
	known(2)
	if !b.says(first, "still here") || !b.says(second, "me too") {
		t.Error("a player is not heard after a reload")
	}
	b.Bans().Add(ratelimit.Ban{Prefix: netip.MustParsePrefix("127.0.0.1/32"), Until: time.Now().Add(time.Hour)})
	await.Until(t, "rid of who was banned", func() bool { return b.Snapshot().Kernel.Known == 0 })
}

// TestPlayersPassThinnedStrangers covers a loop without a gate that has been behind. Fewer strangers reach its
// buffer, and all players, until it has kept up for a while.
func TestPlayersPassThinnedStrangers(t *testing.T) {
	b := besiege(t, 1, Kernel{Plain: true})
	player := b.player()
	l := b.loops[0]
	thin := func(times int) {
		for range times {
			l.ask(stats.WorkKernel, func(r *relay.Relay, now time.Time) {
				fallBehind(r, now, r.ListenerSocket(0))
				l.sampler.changed = time.Time{}
				l.sampler.turn(now, r)
			})
		}
	}
	thin(3) // one of 256 passes
	got := b.heardInAFlood(player, 100)
	if got != 100 {
		t.Errorf("%d of 100 datagrams came through", got)
	}
	one := 0
	for deadline := time.Now().Add(await.Patience); one != 1; {
		if time.Now().After(deadline) {
			t.Fatalf("one of %d strangers passes after all is calm", one)
		}
		l.ask(stats.WorkKernel, func(_ *relay.Relay, now time.Time) {
			before := now.Add(-thinCalm)
			l.sampler.changed, l.sampler.behind, l.sampler.looked = before, before, before
			one = l.sampler.one
		})
	}
	if !b.says(b.dial(), "hello") {
		t.Error("a newcomer does not get in")
	}
}
