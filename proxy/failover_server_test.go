package proxy_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/riptide"
	"tidegate/internal/netio"
	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/freeport"
	"tidegate/internal/upstream"
	"tidegate/proxy/relay"
)

// crowd is a group of players that send a numbered message every 10 ms. They join again after a goodbye.
type crowd struct {
	sent    atomic.Int64
	told    atomic.Int64 // goodbyes that ended a game
	quiet   atomic.Bool  // the players send no more
	leave   chan struct{}
	players sync.WaitGroup
}

func startCrowd(t *testing.T, r *running, p codec.Protocol, mode codec.Mode, n int) *crowd {
	c := &crowd{leave: make(chan struct{})}
	joined := make(chan struct{}, n)
	for i := range n {
		c.players.Go(func() { c.play(t, r, p, mode, uint32(i), joined) })
	}
	for range n {
		select {
		case <-joined:
		case <-time.After(patience):
			t.Fatal("the players did not join")
		}
	}
	t.Cleanup(c.end)
	return c
}

// end lets the players leave.
func (c *crowd) end() {
	select {
	case <-c.leave:
	default:
		close(c.leave)
	}
	c.players.Wait()
}

func (c *crowd) play(t *testing.T, r *running, p codec.Protocol, mode codec.Mode, player uint32,
	joined chan<- struct{}) {
	socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(anyPort))
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = socket.Close() }()
	peer := &udpPeer{t: t, socket: socket, to: r.addr}
	redial := time.Now()
	up, number, next := false, uint32(0), time.Now()
	for {
		select {
		case <-c.leave:
			return
		default:
		}
		if !redial.IsZero() && !time.Now().Before(redial) {
			peer.conn, redial = p.Dial(time.Now(), r.addr, codec.Hello{}), time.Time{}
		}
		for ev, ok := peer.conn.Poll(); ok; ev, ok = peer.conn.Poll() {
			switch ev.Kind {
			case codec.Connected:
				up = true
				if number == 0 {
					joined <- struct{}{}
				}
			case codec.Disconnected:
				if up {
					c.told.Add(1)
				}
				up, redial = false, time.Now().Add(100*time.Millisecond) // as games do after a goodbye
			}
		}
		if now := time.Now(); up && !now.Before(next) && !c.quiet.Load() {
			next = now.Add(10 * time.Millisecond)
			m := codec.Message{Payload: make([]byte, 9), Mode: mode, ID: 7, HasID: p.Spec().IDs == codec.IDBeside}
			m.Payload[0] = 0x86
			binary.BigEndian.PutUint32(m.Payload[1:], player)
			binary.BigEndian.PutUint32(m.Payload[5:], number)
			if peer.conn.Send(now, m) == nil {
				number++
				c.sent.Add(1)
			}
		}
		peer.flush()
		_ = peer.socket.SetReadDeadline(time.Now().Add(2 * time.Millisecond))
		if n, _, err := peer.socket.ReadFromUDPAddrPort(peer.buffer[:]); err == nil {
			_ = peer.conn.Receive(time.Now(), peer.buffer[:n])
		} else {
			peer.conn.Advance(time.Now())
		}
	}
}

// TestRestartUnderLoad kills and restarts a game server on real sockets, under each policy. It reports lost and
// repeated messages. docs/benchmarks/failover.md has the figures of one run.
func TestRestartUnderLoad(t *testing.T) {
	const players = 20
	for _, game := range []struct {
		name     string
		protocol codec.Protocol
		mode     codec.Mode
	}{
		{"raknet", bedrock(), codec.ReliableOrdered},
		{"riptide", riptide.New(riptide.Options{IgnoreQuality: true}), codec.Reliable},
	} {
		for _, policy := range []string{"disconnect", "hold", "transfer"} {
			t.Run(game.name+" "+policy, func(t *testing.T) {
				at, books := freeport.Loopback(t), newLedger()
				first, second := startArcade(t, game.protocol, at, books), startArcade(t, game.protocol, anyPort, books)
				r := startWith(t, netio.Auto, 2, game.protocol, game.protocol, at, func(s *relay.Settings) {
					s.DrainTimeout = 100 * time.Millisecond // the games do not answer goodbyes
					route := s.Listeners[0].Route
					route.Upstream.Options.RetryAfter = 100 * time.Millisecond
					route.Failover.NewIDs = policy == "transfer" // the other server has given its own IDs to other players
					if policy == "hold" {
						route.Failover.Hold = 20 * time.Second
					}
					if policy == "transfer" {
						route.Upstream.Servers = []upstream.Target{{Addr: at}, {Addr: second.addr()}}
					}
				})
				c := startCrowd(t, r, game.protocol, game.mode, players)
				await.Until(t, "under load", func() bool { came, _, _ := books.sum(); return came > 1000 })
				if policy == "transfer" {
					if _, err := r.server.TransferServer(context.Background(), "arena", at); err != nil {
						t.Fatal(err)
					}
					await.Until(t, "empty", func() bool { return r.sessions()[0] == 0 })
				}
				first.end(false)
				before, _, _ := books.sum()
				sent := c.sent.Load()
				await.Until(t, "going on without it", func() bool { return c.sent.Load() > sent+500 || c.told.Load() >= players })
				startArcade(t, game.protocol, at, books)
				await.Until(t, "playing again", func() bool { came, _, _ := books.sum(); return came > before+2000 })
				c.quiet.Store(true)
				settled := func() bool { came, _, _ := books.sum(); return int64(came) == c.sent.Load() }
				if policy == "disconnect" {
					settled = func() bool { return books.idle() > 500*time.Millisecond }
				}
				await.Until(t, "settled", settled)
				came, twice, gap := books.sum()
				t.Logf("%s, %s: %d sent, %d lost, %d came twice, %d players told goodbye, longest gap %d ms", game.name, policy,
					c.sent.Load(),
					c.sent.Load()-int64(came), twice, c.told.Load(), gap.Milliseconds())
				if (policy == "disconnect") != (c.told.Load() == players) || policy == "transfer" && twice > 0 {
					t.Errorf("%d players had to come again; %d messages came twice", c.told.Load(), twice)
				}
				c.end()
				if err := r.server.Ask(context.Background(), &relay.MoveSession{To: at}); !errors.Is(err, relay.ErrNoSession) {
					t.Errorf("transfer of nobody: %v", err)
				}
			})
		}
	}
}
