//go:build interop && chaos

package interop_test

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/sandertv/go-raknet"

	"tidegate/codec"
	"tidegate/internal/lossylink"
	"tidegate/internal/testkit/await"
)

// narrow is the bytes of the largest datagram on a narrow path, and wide the bytes of a message over it.
const (
	narrow = 900
	wide   = 20_000
)

// narrowPath lets a player join over a path that takes only small datagrams, and drops the others in silence.
func narrowPath(t *testing.T) string {
	g := bedrock(t, startGoServer(t)).open(t)
	l, err := lossylink.StartAt(netip.MustParseAddrPort("127.0.0.1:0"), netipAt(g.plan.port), 4, lossylink.Loss{
		Chosen: func(_ bool, datagram []byte) bool { return len(datagram) > narrow },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Stop() })
	player := joins(t, portOf(t, l.Addr().String()))
	sent := append([]byte{packetByte}, bytes.Repeat([]byte{7}, wide)...)
	if _, err := player.Write(sent); err != nil {
		t.Fatal(err)
	}
	_ = player.SetReadDeadline(time.Now().Add(patience))
	if back, err := player.ReadPacket(); err != nil || !bytes.Equal(back, sent) {
		t.Errorf("%d bytes came back, %v", len(back), err)
	}
	return fmt.Sprintf("joins in %s, %d bytes there and back", seconds(player.took), wide)
}

const (
	descriptors = 64  // of the process
	manyPlayers = 100 // for which it has too few
)

// fewDescriptors lets more players come than the process has descriptors for, and some of them leave.
func fewDescriptors(t *testing.T) string {
	limited := fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, descriptors)
	g := bedrock(t, startGoServer(t)).openBy(t, "sh", "-c", limited, tidegate)
	var mu sync.Mutex
	var in []goPlayer
	join := func(players int) (joined int) {
		before := len(in)
		var joining sync.WaitGroup
		for range players {
			joining.Go(func() {
				conn, err := raknet.DialTimeout(net.JoinHostPort("127.0.0.1", g.plan.port), 8*time.Second)
				if err != nil {
					return
				}
				t.Cleanup(func() { _ = conn.Close() })
				mu.Lock()
				defer mu.Unlock()
				in = append(in, goPlayer{Conn: conn})
			})
		}
		joining.Wait()
		return len(in) - before
	}
	first := join(manyPlayers)
	if first == 0 || first == manyPlayers {
		t.Fatalf("%d of %d players joined with %d descriptors", first, manyPlayers, descriptors)
	}
	for _, p := range in {
		p.plays(t)
	}
	leave := first / 2
	for _, p := range in[:leave] {
		_ = p.Close()
		p.isTold(t)
	}
	in = in[leave:]
	var again int
	await.Within(patience, func() bool { again += join(leave - again); return again == leave })
	for _, p := range in {
		p.plays(t)
	}
	if again != leave {
		t.Errorf("%d of %d players joined after as many had left", again, leave)
	}
	return fmt.Sprintf("%d of %d join and play; %d leave, %d join in their place", first, manyPlayers, leave, again)
}

// stillServer lets a game server stand still while its players talk.
func stillServer(t *testing.T) string {
	port := freePort(t)
	server := startCrowd(t, "raknet", udp, port)
	g := plan{players: "raknet", server: "raknet", servers: []string{port},
		route: fmt.Sprintf("packet_id = %d", packetByte)}.open(t)
	players := newCrowd(t, "raknet", udp)
	for range 20 {
		players.dial(g.plan.port)
	}
	await.Until(t, "joined", func() bool { return players.up() == 20 })
	var talking sync.WaitGroup
	talking.Go(func() { server.pause(4 * time.Second) })
	for range 20 {
		players.say(codec.ReliableOrdered)
		await.Within(100*time.Millisecond, func() bool { return false })
	}
	talking.Wait()
	await.Until(t, "echoed", players.echoed)
	doubled := players.count(func(e *end) bool {
		for _, n := range e.echoes {
			if n > 1 {
				return true
			}
		}
		return false
	})
	if players.up() != 20 || doubled > 0 {
		t.Errorf("%d of 20 play on, %d heard a message twice", players.up(), doubled)
	}
	return "20 of 20 play on, 400 of 400 messages came back once"
}
