//go:build interop && chaos

package interop_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandertv/go-raknet"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/netlab"
	"tidegate/internal/testkit/tunpath"
)

// opener opens the sockets of go-raknet in a network namespace.
type opener struct{ *netlab.Namespace }

// DialContext implements raknet.UpstreamDialer.
func (o opener) DialContext(ctx context.Context, network, address string) (conn net.Conn, err error) {
	o.Do(func() { conn, err = new(net.Dialer).DialContext(ctx, network, address) })
	return conn, err
}

// ListenPacket implements raknet.UpstreamPacketListener.
func (o opener) ListenPacket(network, address string) (conn net.PacketConn, err error) {
	o.Do(func() { conn, err = net.ListenPacket(network, address) })
	return conn, err
}

// overTUN has the binary run at the far end of a path. Players and servers are at the near end, so that both legs cross
// the path.
func overTUN(t *testing.T, path *tunpath.Path, p plan) *gate {
	t.Helper()
	p.port = net.JoinHostPort(tunpath.FarAddr, freePort(t))
	return p.openBy(t, append(path.Far.Enter(), tidegate)...)
}

// tunWeathers is what a path does in turn.
var tunWeathers = []struct {
	name    string
	weather tunpath.Weather
	did     func(s tunpath.Stats) int // packets that met it
}{
	{"delay and jitter", tunpath.Weather{Delay: 30 * time.Millisecond, Jitter: 30 * time.Millisecond},
		func(s tunpath.Stats) int { return s.Delivered }},
	{"loss", tunpath.Weather{Loss: 0.1}, func(s tunpath.Stats) int { return s.Lost }},
	{"duplication", tunpath.Weather{Duplication: 0.3}, func(s tunpath.Stats) int { return s.Doubled }},
	{"reordering", tunpath.Weather{Delay: 5 * time.Millisecond, Reordering: 0.3},
		func(s tunpath.Stats) int { return s.Late }},
	{"corruption", tunpath.Weather{Corruption: 0.1}, func(s tunpath.Stats) int { return s.Corrupted }},
	{"rate", tunpath.Weather{Rate: 60_000, Queue: 6_000}, func(s tunpath.Stats) int { return s.Overflowed }},
	{"MTU", tunpath.Weather{MTU: 700}, func(s tunpath.Stats) int { return s.TooLarge + s.Fragments }},
	{"all", tunpath.Weather{Loss: 0.05, Duplication: 0.05, Reordering: 0.05, Corruption: 0.05,
		Delay: 10 * time.Millisecond, Jitter: 10 * time.Millisecond, Rate: 300_000, Queue: 60_000, MTU: 900},
		func(s tunpath.Stats) int { return s.Lost }},
}

// tunGoRakNet has real players and a real server talk in each weather, one after the other, and in an outage of 2 s.
func tunGoRakNet(t *testing.T) string {
	path := tunpath.New(t, 1)
	server := listenGo(t, tunpath.NearAddr, raknet.ListenConfig{BlockDuration: -1,
		UpstreamPacketListener: opener{path.Near}})
	p := bedrock(t, server)
	p.servers = []string{net.JoinHostPort(tunpath.NearAddr, server.port)}
	g := overTUN(t, path, p)
	var players []goPlayer
	for range 3 {
		dialer := raknet.Dialer{UpstreamDialer: opener{path.Near}}
		conn, err := dialer.DialTimeout(g.plan.port, patience)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		players = append(players, goPlayer{Conn: conn})
	}
	var took []string
	for _, c := range tunWeathers {
		before, began := path.Stats(), time.Now()
		path.SetWeather(c.weather)
		talks(t, c.name, players)
		if c.did(path.Stats()) == c.did(before) {
			t.Errorf("%s: no packet met it", c.name)
		}
		took = append(took, c.name+" "+seconds(time.Since(began)))
	}
	path.SetWeather(tunpath.Weather{Down: true})
	over := time.AfterFunc(2*time.Second, func() { path.SetWeather(tunpath.Weather{}) })
	t.Cleanup(func() { over.Stop() })
	talks(t, "outage", players)
	if path.Stats().Down == 0 {
		t.Error("no packet was sent in the outage")
	}
	return fmt.Sprintf("%d of %[1]d; %s",
		len(players)*tunMessages*(len(tunWeathers)+1), strings.Join(took, ", "))
}

// tunMessages is how many messages a player sends in each weather.
const tunMessages = 20

// talks has each player send messages of up to 3,000 bytes at once, and hear all of them again in their order.
func talks(t *testing.T, weather string, players []goPlayer) {
	t.Helper()
	var talking sync.WaitGroup
	for _, p := range players {
		talking.Go(func() {
			message := func(i int) []byte {
				return append([]byte{packetByte}, bytes.Repeat([]byte{byte(i)}, 1+150*i)...)
			}
			for i := range tunMessages {
				if _, err := p.Write(message(i)); err != nil {
					t.Errorf("%s: %v", weather, err)
					return
				}
			}
			_ = p.SetReadDeadline(time.Now().Add(patience))
			for i := range tunMessages {
				if back, err := p.ReadPacket(); err != nil || !bytes.Equal(back, message(i)) {
					t.Errorf("%s: message %d: %d bytes came back, %v", weather, i, len(back), err)
					return
				}
			}
		})
	}
	talking.Wait()
}

// tunProtocols has players of each protocol with reliable messages talk in all weathers at once, with an outage of
// 300 ms, which is less than any protocol gives up after.
func tunProtocols(t *testing.T) string {
	const players, messages = 5, 40
	foul := tunWeathers[len(tunWeathers)-1].weather
	var done []string
	for _, c := range []held{{protocol: "raknet", by: udp}, {protocol: "enet", by: udp},
		{protocol: "riptide-2.2", by: udp},
		{protocol: "riptide-2.0", by: udp}, {protocol: "riptide-2.2", by: tcp}} {
		t.Run(c.protocol+"-"+c.by, func(t *testing.T) {
			path := tunpath.New(t, 1)
			port := net.JoinHostPort(tunpath.NearAddr, freePort(t))
			server, n := newCrowd(t, c.protocol, c.by), newCrowd(t, c.protocol, c.by)
			server.enter, n.enter = path.Near.Do, path.Near.Do
			server.listen(t, port)
			g := overTUN(t, path, plan{players: c.protocol, playersBy: c.by, server: c.protocol, serverBy: c.by,
				servers: []string{port}, more: calm})
			for range players {
				n.dial(g.plan.port)
			}
			await.Until(t, "joined", func() bool { return n.up() == players })
			path.SetWeather(foul)
			for i := range messages {
				n.say(n.reliable())
				w := foul
				w.Down = i >= 20 && i < 26
				path.SetWeather(w)
				await.Within(50*time.Millisecond, func() bool { return false })
			}
			await.Until(t, "echoed", func() bool { return n.echoed() || n.gone() > 0 })
			doubled := n.count(func(e *end) bool {
				for _, times := range e.echoes {
					if times > 1 {
						return true
					}
				}
				return len(e.echoes) > messages
			})
			if n.up() != players || doubled > 0 {
				t.Errorf("%d of %d play on, %d heard a message twice", n.up(), players, doubled)
			}
			done = append(done, c.protocol+" "+c.by)
		})
	}
	return fmt.Sprintf("%d of %[1]d messages of each: %s", players*messages, strings.Join(done, ", "))
}
