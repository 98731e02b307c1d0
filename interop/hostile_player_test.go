//go:build interop

package interop_test

import (
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/sandertv/go-raknet"
)

// unnoticed is the longest time that other players' messages may take during an attack, also on a busy machine. A
// server that blocks an address does so for 10 s or more.
const unnoticed = 7 * time.Second

// blockingGoServer is go-raknet as games use it: it blocks an address after one faulty datagram.
var blockingGoServer = contender{name: "go-raknet that blocks", transport: udp, protocol: "bedrock",
	server: func(t *testing.T) *peer {
		return listenGo(t, "127.0.0.1", raknet.ListenConfig{ErrorLog: slog.New(slog.NewTextHandler(t.Output(), nil))})
	}}

// attackedServers are servers of most libraries, as a hostile player meets them, with the default bounds of Tidegate.
// pytide is not among them: it closes each connection after some reliable messages (conversation_test.go).
func attackedServers() []contender {
	cloudburst := cloudburstServer
	cloudburst.upstream = "" // max_packets has a default
	return slices.Concat([]contender{blockingGoServer, cloudburst}, raknetServers[1:3],
		[]contender{stockServer, libenetContender})
}

// hostilities are what a player may do to make a server block the proxy's address, or to keep it busy.
var hostilities = []struct {
	name string
	do   func(conn *raknet.Conn)
}{
	{"600 parts", func(conn *raknet.Conn) {
		_, _ = conn.Write(append([]byte{packetByte, 1, 0}, make([]byte, 600*1400)...))
	}},
	{"5000 tiny messages", func(conn *raknet.Conn) {
		for range 5000 {
			if _, err := conn.Write([]byte{packetByte, 1, 0, 7}); err != nil {
				return
			}
		}
	}},
	{"1000 full datagrams", func(conn *raknet.Conn) {
		for range 1000 {
			if _, err := conn.Write(append([]byte{packetByte, 1, 0}, make([]byte, 1100)...)); err != nil {
				return
			}
		}
	}},
}

// TestHostilePlayerHarmsNoOther lets players attack servers of every library through the binary, with its defaults.
// Another player goes on, and a new one gets in: neither waits for longer than unnoticed.
func TestHostilePlayerHarmsNoOther(t *testing.T) {
	for _, to := range attackedServers() {
		for _, attack := range hostilities {
			t.Run(to.name+"/"+attack.name, func(t *testing.T) {
				player, between, server := meetBy(t, goClient, to, route{failover: "allow_lossy = false"})
				go func() {
					for range server.events { // the hostile players' messages
					}
				}()
				done := make(chan struct{})
				go func() {
					defer close(done)
					for range 3 {
						hostile, err := raknet.DialTimeout(net.JoinHostPort("127.0.0.1", between.ports[udp]), patience)
						if err != nil {
							t.Errorf("a hostile player cannot join: %v", err)
							return
						}
						go discard(hostile)
						attack.do(hostile)
						time.AfterFunc(time.Second, func() { _ = hostile.Close() })
					}
				}()
				longest := exchange(t, done, player)
				begun := time.Now()
				late := startGoClient(t, between.ports[udp])
				late.await(t, "connected")
				longest = max(longest, time.Since(begun), exchange(t, done, player, late))
				t.Logf("longest wait of another player: %v", longest.Round(time.Millisecond))
				if longest > unnoticed {
					t.Errorf("another player waited for %v, want at most %v", longest, unnoticed)
				}
			})
		}
	}
}

// discard reads what a server sends to a hostile player.
func discard(conn *raknet.Conn) {
	for {
		if _, err := conn.ReadPacket(); err != nil {
			return
		}
	}
}

// exchange lets players send messages in turn and wait for the echo, until done is closed and 20 times more. It
// returns the longest wait.
func exchange(t *testing.T, done <-chan struct{}, players ...*peer) (longest time.Duration) {
	t.Helper()
	for after := 0; after < 20; {
		for _, p := range players {
			sent := time.Now()
			p.order(t, order{Do: "send", Reliable: true, Payload: "fe3412c0ffee"})
			p.awaitWithin(t, "received", 3*patience)
			longest = max(longest, time.Since(sent))
		}
		select {
		case <-done:
			after++
		default:
		}
	}
	return longest
}
