//go:build linux

package proxy_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	gork "github.com/sandertv/go-raknet"
	"golang.org/x/sys/unix"

	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/testkit/await"
	"tidegate/proxy"
	"tidegate/proxy/captures"
	"tidegate/proxy/relay"
)

// TestHandOver lets a second proxy take over the first one's listeners and sessions while players talk. No session
// ends and no message is lost. The first proxy ends at once.
func TestHandOver(t *testing.T) {
	for _, b := range backends {
		if b.backend == netio.Portable {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			const players = 16
			server, _ := gorkServer(t)
			now := start(t, b.backend, b.loops, bedrock(), bedrock(), server)
			stop := make(chan struct{})
			var talking sync.WaitGroup
			var conns []*gork.Conn
			var longest atomic.Int64
			join := func() {
				for i := range players {
					conn, err := gork.DialTimeout(now.addr.String(), patience)
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
			}
			join()
			for range 3 {
				now = succeed(t, now, now.settings, b.loops)
			}
			join()
			if got := now.server.Snapshot(); len(got.Sessions) != 2*players || got.Counters.Closed != 0 {
				t.Errorf("the last proxy has %d sessions and has closed %d, want %d and 0", len(got.Sessions),
					got.Counters.Closed, 2*players)
			}
			close(stop)
			talking.Wait()
			for _, conn := range conns {
				_ = conn.Close()
			}
			t.Logf("longest answer: %v", time.Duration(longest.Load()))
		})
	}
}

// TestHandOverKeepsTheBooks: after an upgrade counters go on, and no session gets the ID of an earlier one.
func TestHandOverKeepsTheBooks(t *testing.T) {
	server, _ := gorkServer(t)
	now := start(t, netio.Auto, 1, bedrock(), bedrock(), server)
	join := func() *gork.Conn {
		conn, err := gork.DialTimeout(now.addr.String(), patience)
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	stays, leaves := join(), join()
	last := now.server.Snapshot().Sessions[1].ID
	_ = leaves.Close()
	await.Until(t, "rid of the player", func() bool { return len(now.server.Snapshot().Sessions) == 1 })
	before := now.server.Snapshot().Counters
	now = succeed(t, now, now.settings, 1)
	after := now.server.Snapshot().Counters
	if after.Opened != before.Opened || after.Closed != before.Closed || after.Established != before.Established ||
		after.FromClients.Messages < before.FromClients.Messages {
		t.Errorf("the counters were %+v and are %+v", before, after)
	}
	joins := join()
	if id := now.server.Snapshot().Sessions[1].ID; id <= last {
		t.Errorf("a new session has ID %v, an earlier one had %v", id, last)
	}
	_, _ = stays.Close(), joins.Close()
}

// succeed starts a proxy that takes over the listeners and sessions of another, which then has ended.
func succeed(t *testing.T, old *running, settings *relay.Settings, loops int) *running {
	t.Helper()
	return follow(t, old, successorOf(t, old.server, settings, proxy.Options{Loops: loops, Log: zerolog.Nop()}))
}

// follow runs a server that has taken over from another, which has ended.
func follow(t *testing.T, old *running, server *proxy.Server) *running {
	t.Helper()
	if old.ended != nil {
		if err := <-old.ended; err != nil {
			t.Error(err)
		}
		old.ended = nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{
		addr: server.Addrs()[0], settings: old.settings, server: server, captures: captures.New(server, nil, 0), stop: cancel,
		ended: make(chan error, 1),
	}
	go func() { r.ended <- server.Run(ctx) }()
	t.Cleanup(func() { r.end(t) })
	return r
}

// successorOf returns a server that has taken over the listeners and sessions of another.
func successorOf(t *testing.T, old *proxy.Server, settings *relay.Settings, o proxy.Options) *proxy.Server {
	t.Helper()
	return copiedTo(t, old, settings, o, func(*proxy.Server) {})
}

// copiedTo is successorOf with a step before the standstill, which may copy sessions to the successor.
func copiedTo(t *testing.T, old *proxy.Server, settings *relay.Settings, o proxy.Options,
	before func(successor *proxy.Server)) *proxy.Server {
	t.Helper()
	var err error
	if o.Inherited, err = old.Listening(); err != nil {
		t.Fatal(err)
	}
	o.Successor = true
	server, err := proxy.Listen(settings, o)
	if err != nil {
		t.Fatal(err)
	}
	before(server)
	frozen, err := old.Freeze()
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	states := frozen.Export()
	for i := range states {
		states[i].Descriptors = duplicates(t, states[i].Descriptors)
	}
	if all, err := server.Import(states, at); err != nil || all.Lost > 0 {
		frozen.Thaw()
		t.Fatalf("%+v, %v", all, err)
	}
	frozen.Leave()
	return server
}

// duplicates returns copies of descriptors, as another process would get them.
func duplicates(t *testing.T, descriptors []int) (all []int) {
	t.Helper()
	for _, fd := range descriptors {
		fresh, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fresh)
	}
	return all
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

// TestThaw stops a proxy for a successor that fails. Players go on as if nothing had happened.
func TestThaw(t *testing.T) {
	for _, b := range backends {
		if b.backend == netio.Portable {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			server, _ := gorkServer(t)
			now := start(t, b.backend, b.loops, bedrock(), bedrock(), server)
			stop := make(chan struct{})
			var talking sync.WaitGroup
			for range 8 {
				conn, err := gork.DialTimeout(now.addr.String(), patience)
				if err != nil {
					t.Fatal(err)
				}
				talking.Go(func() {
					if err := talkWith(conn, stop, func(time.Duration) {}); err != nil {
						t.Error(err)
					}
					_ = conn.Close()
				})
			}
			for range 5 {
				frozen, err := now.server.Freeze()
				if err != nil {
					t.Fatal(err)
				}
				frozen.Export()
				frozen.Thaw()
			}
			close(stop)
			talking.Wait()
		})
	}
}

// TestNoHandOverWhileLeaving refuses an upgrade of a node that moves its sessions to others. The loops go on.
func TestNoHandOverWhileLeaving(t *testing.T) {
	server, _ := gorkServer(t)
	now := start(t, netio.Auto, 2, bedrock(), bedrock(), server)
	if err := now.server.Ask(t.Context(), relay.Leave()); err != nil {
		t.Fatal(err)
	}
	if _, err := now.server.Listening(); !errors.Is(err, proxy.ErrLeaving) {
		t.Errorf("Files: %v", err)
	}
	if _, err := now.server.Freeze(); !errors.Is(err, proxy.ErrLeaving) {
		t.Errorf("Freeze: %v", err)
	}
	n := 0
	if err := now.server.Ask(t.Context(), relay.CountSessions(&n)); n != 0 || err != nil {
		t.Errorf("%d sessions, %v", n, err)
	}
}

// TestHandOverOfRelayedSessions asserts that relayed sessions keep their ports at the server.
func TestHandOverOfRelayedSessions(t *testing.T) {
	for name, change := range map[string]func(*relay.Transport){
		"connected": func(*relay.Transport) {},
		"shared":    func(t *relay.Transport) { t.Pooled = true },
		"prefix":    func(t *relay.Transport) { t.Sources = netip.MustParsePrefix("127.8.0.0/16") },
	} {
		t.Run(name, func(t *testing.T) {
			echo := startEcho(t)
			now := echo.behind(t, change)
			client := clientOf(t, now.addr)
			say := func() netip.AddrPort { return echo.hears(t, client) }
			first := say()
			say() // established by now
			for range 2 {
				now = succeed(t, now, now.settings, 1)
				if again := say(); again != first {
					t.Errorf("the server sees %v after %v", again, first)
				}
			}
		})
	}
}

// echoServer is a game server that echoes, and notes who has sent.
type echoServer struct {
	*net.UDPConn
	sources chan netip.AddrPort
}

func startEcho(t *testing.T) *echoServer {
	t.Helper()
	socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(anyPort))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	e := &echoServer{socket, make(chan netip.AddrPort, 100)}
	go func() {
		b := make([]byte, 100)
		for {
			n, from, err := e.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			e.sources <- from
			_, _ = e.WriteToUDPAddrPort(b[:n], from)
		}
	}()
	return e
}

// addr returns the address of the server.
func (e *echoServer) addr() netip.AddrPort { return e.LocalAddr().(*net.UDPAddr).AddrPort() }

// behind starts a proxy with one loop that relays datagrams to the server.
func (e *echoServer) behind(t *testing.T, change func(*relay.Transport)) *running {
	t.Helper()
	return startWith(t, netio.Auto, 1, relay.Any, relay.Any, e.addr(), func(s *relay.Settings) {
		s.Listeners[0].Route.Mode = policy.ModeRelay
		change(&s.Listeners[0].Route.Upstream.Transport)
	})
}

// hears lets a client send a datagram and wait for its answer. It returns the address that the server has seen.
func (e *echoServer) hears(t *testing.T, client *net.UDPConn) netip.AddrPort {
	t.Helper()
	_ = client.SetDeadline(time.Now().Add(patience))
	if _, err := client.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	return <-e.sources
}

// clientOf returns a client of a listener.
func clientOf(t *testing.T, to netip.AddrPort) *net.UDPConn {
	t.Helper()
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
