package proxy_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	gork "github.com/sandertv/go-raknet"

	"tidegate/codec/nethernet"
	"tidegate/internal/netio"
	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/heavy"
	"tidegate/internal/testkit/rakserver"
	"tidegate/proxy/relay"
)

// Join implements relay.Joiner for a proxy before a webWorld, which has NetherNet's side towards its clients.
func (w *webWorld) Join(_ netip.AddrPort, wake func()) relay.Question {
	q := new(webQuestion)
	ticket, err := w.ticket(w.ours.Fingerprint())
	if q.err = err; err == nil {
		names := ticket.Told()
		q.answer = &nethernet.Answer{
			Peer: w.self(), Target: names.Target, Ufrag: names.ClientUfrag, Password: "its password of 22 letters",
			PeerUfrag: names.ServerUfrag, PeerPassword: names.ServerPassword, Seed: 7,
		}
	}
	go wake()
	return q
}

// Dial implements relay.Joiner.
func (w *webWorld) Dial(p *nethernet.Peer, wake func()) (nethernet.Stack, error) {
	return w.ours.Dial(p, wake)
}

type webQuestion struct {
	answer *nethernet.Answer
	err    error
}

func (q *webQuestion) Take() (*nethernet.Answer, error) { return q.answer, q.err }
func (q *webQuestion) Abandon()                         {}

// startCalls runs a proxy with RakNet clients before a webWorld.
func startCalls(t *testing.T, backend netio.Backend, players int) (*webWorld, *running) {
	t.Helper()
	w := startWeb(t, backend, rakserver.Start(t, rakserver.Echo), players)
	loops := 2
	if backend == netio.Portable {
		loops = 1
	}
	return w, startWith(t, backend, loops, bedrock(), relay.NetherNet, w.addr, func(s *relay.Settings) {
		s.Listeners[0].Route.Upstream.Joiner = w
		s.Limits.Sessions, s.Limits.HalfOpen = players+10, players+10
		s.DrainGrace = 0
	})
}

func dialCalls(t *testing.T, at netip.AddrPort) *gork.Conn {
	t.Helper()
	conn, err := gork.DialTimeout(at.String(), await.Patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetReadDeadline(time.Now().Add(await.Patience))
	return conn
}

// TestCallsServer plays from go-raknet over NetherNet to go-raknet: RakNet, NetherNet, RakNet. Messages keep their
// order, a large one arrives whole, and an upgrade tells the players that they must join again.
func TestCallsServer(t *testing.T) {
	for _, backend := range []netio.Backend{netio.Epoll, netio.Portable} {
		t.Run(backend.String(), func(t *testing.T) {
			w, front := startCalls(t, backend, 2)
			conn, other := dialCalls(t, front.addr), dialCalls(t, front.addr)
			all := [][]byte{append([]byte{0xfe}, bytes.Repeat([]byte("tide"), 50_000)...)}
			for i := range 500 {
				all = append(all, fmt.Appendf(nil, "\xfemessage %d", i))
			}
			for _, m := range all {
				if _, err := conn.Write(m); err != nil {
					t.Fatal(err)
				}
			}
			for i, want := range all {
				if got, err := conn.ReadPacket(); err != nil || !bytes.Equal(got, want) {
					t.Fatalf("message %d: %d bytes, want %d, %v", i, len(got), len(want), err)
				}
			}
			_, _ = other.Write([]byte("\xfeother"))
			if got, err := other.ReadPacket(); string(got) != "\xfeother" {
				t.Errorf("%q, %v", got, err)
			}
			_ = other.Close()
			await.Until(t, "the server has lost one", func() bool { _, n := w.tickets.Sizes(); return n == 1 })
			if !dismissed(t, front.server, 1, func() {
				_, _ = conn.Write([]byte("\xfestill"))
				if got, err := conn.ReadPacket(); string(got) != "\xfestill" {
					t.Errorf("after an upgrade that has failed: %q, %v", got, err)
				}
			}) {
				return
			}
			if _, err := conn.ReadPacket(); err == nil {
				t.Error("the player was not told")
			}
			await.Until(t, "the server has lost both", func() bool { _, n := w.tickets.Sizes(); return n == 0 })
		})
	}
}

// TestCallsCost prints what sessions cost.
func TestCallsCost(t *testing.T) {
	heavy.Skip(t)
	const players = 100
	_, front := startCalls(t, netio.Epoll, players)
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before, goroutines := m.HeapAlloc+m.StackInuse, runtime.NumGoroutine()
	for range players {
		dialCalls(t, front.addr)
	}
	runtime.GC()
	runtime.ReadMemStats(&m)
	t.Logf("both ends of NetherNet, with go-raknet's client and server: %d KiB and %d goroutines a session",
		(m.HeapAlloc+m.StackInuse-before)/players/1024, (runtime.NumGoroutine()-goroutines)/players)
}
