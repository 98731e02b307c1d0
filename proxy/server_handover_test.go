//go:build linux

package proxy_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	gork "github.com/sandertv/go-raknet"

	"tidegate/internal/netio"
	"tidegate/proxy"
)

// TestHandOver lets a second proxy take over the first one's listeners while players talk. No session ends and no
// message is lost. New players get the second proxy. The first one ends with its last player.
func TestHandOver(t *testing.T) {
	for _, b := range backends {
		if b.backend == netio.Portable {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			const players = 16
			server, _ := gorkServer(t)
			old := start(t, b.backend, b.loops, bedrock(), bedrock(), server)
			stop := make(chan struct{})
			var talking sync.WaitGroup
			var conns []*gork.Conn
			var longest atomic.Int64
			for i := range players {
				conn, err := gork.DialTimeout(old.addr.String(), patience)
				if err != nil {
					t.Fatal(err)
				}
				conns = append(conns, conn)
				talking.Go(func() {
					if err := talkTimed(conn, stop, &longest); err != nil {
						t.Errorf("player %d: %v", i, err)
					}
				})
			}
			second := succeed(t, old, b.loops)
			for range players {
				conn, err := gork.DialTimeout(old.addr.String(), patience)
				if err != nil {
					t.Fatal(err)
				}
				conns = append(conns, conn)
			}
			close(stop)
			talking.Wait()
			if got := old.server.Snapshot(); got.Counters.Closed != 0 || len(got.Sessions) != players {
				t.Errorf("the first has lost %d sessions and has %d, want %d", got.Counters.Closed, len(got.Sessions), players)
			}
			if got := second.server.Snapshot(); len(got.Sessions) != players {
				t.Errorf("the second has %d sessions, want %d", len(got.Sessions), players)
			}
			for _, conn := range conns {
				_ = conn.Close()
			}
			select {
			case err := <-old.ended:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(patience):
				t.Error("the first goes on without players")
			}
			old.ended = nil
			t.Logf("longest answer: %v", time.Duration(longest.Load()))
		})
	}
}

// succeed starts a proxy on the sockets of another, which then has none of its own.
func succeed(t *testing.T, old *running, loops int) *running {
	t.Helper()
	files, err := old.server.Files()
	if err != nil {
		t.Fatal(err)
	}
	server, err := proxy.Listen(old.settings, proxy.Options{Loops: loops, Log: zerolog.Nop(), Inherited: files})
	if err != nil {
		t.Fatal(err)
	}
	if err := old.server.HandOver(time.Minute); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{addr: server.Addrs()[0], settings: old.settings, server: server, stop: cancel,
		ended: make(chan error, 1)}
	go func() { r.ended <- server.Run(ctx) }()
	t.Cleanup(func() { r.end(t) })
	return r
}

// talkTimed is talk, and records the time of the slowest answer.
func talkTimed(conn *gork.Conn, stop <-chan struct{}, longest *atomic.Int64) error {
	return talkWith(conn, stop, func(took time.Duration) {
		for {
			before := longest.Load()
			if int64(took) <= before || longest.CompareAndSwap(before, int64(took)) {
				return
			}
		}
	})
}

// TestHandOverOfRelayedSessions asserts that relayed sessions stay with the first proxy too, each with its port at
// the server.
func TestHandOverOfRelayedSessions(t *testing.T) {
	echo, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(anyPort))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = echo.Close() }()
	ports := make(chan uint16, 100)
	go func() {
		b := make([]byte, 100)
		for {
			n, from, err := echo.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			ports <- from.Port()
			_, _ = echo.WriteToUDPAddrPort(b[:n], from)
		}
	}()
	old := startWith(t, netio.Auto, 1, proxy.Any, proxy.Any, echo.LocalAddr().(*net.UDPAddr).AddrPort(),
		func(s *proxy.Settings) { s.Listeners[0].Route.Mode = proxy.ModeRelay })
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(old.addr))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	say := func() uint16 {
		_ = conn.SetDeadline(time.Now().Add(patience))
		if _, err := conn.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		return <-ports
	}
	first := say()
	say() // established by now
	succeed(t, old, 1)
	if again := say(); again != first {
		t.Errorf("the server sees port %d after port %d", again, first)
	}
}
