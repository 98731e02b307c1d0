//go:build interop

package interop_test

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/internal/lossylink"
)

// weathers are the shares of datagrams lost between a library and Tidegate, in each direction.
var weathers = []float64{0, 0.05}

// large is the size of a large message, in bytes, and largeParts lets Tidegate send it to a server: Minecraft's take
// fewer parts.
const (
	large      = 1 << 20
	largeParts = "max_parts = 1000"
)

// TestEveryClient tests each library as the client, in each weather, with our own codec as the server.
func TestEveryClient(t *testing.T) {
	for _, from := range raknetClients {
		inWeathers(t, from, func(t *testing.T, loss float64) {
			server := startOwnServer(t)
			between := startTidegate(t, route{
				protocol: "bedrock", transport: udp, server: server.port, noCookies: from.noCookies, bedrock: largeParts,
			})
			weather := lossylink.Loss{ToClients: loss, ToServer: loss}
			if from.forgets {
				weather.ToServer, weather.Chosen = 0, losesOnce(true, loss, 0)
			}
			_, door := lossy(t, "127.0.0.1:0", between.ports[udp], weather)
			client := from.client(t, door)
			client.awaitWithin(t, "connected", 3*patience)
			server.await(t, "joined")
			from.soak(t, loss, client, server)
			client.order(t, order{Do: "leave"})
			server.awaitWithin(t, "left", 3*patience) // a lost goodbye shows by silence
		})
	}
}

// TestEveryServer tests each library as the server.
func TestEveryServer(t *testing.T) {
	for _, to := range append(slices.Clone(raknetServers), jspServer) {
		inWeathers(t, to, func(t *testing.T, loss float64) {
			server := to.server(t)
			weather := lossylink.Loss{ToClients: loss, ToServer: loss}
			if to.deaf {
				weather.Spared = 4 // two requests and their replies
			}
			if to.forgets {
				weather.ToClients, weather.Chosen = 0, losesOnce(false, loss, weather.Spared)
			}
			// serenityjs requires clients to name its own port as the server's.
			host, port := lossy(t, "127.0.0.2:"+server.port, server.port, weather)
			between := startTidegate(t, route{
				protocol: to.protocol, transport: udp, host: host, server: port, upstream: to.upstream, bedrock: largeParts,
			})
			client := startOwnClient(t, between.ports[udp])
			client.awaitWithin(t, "connected", 3*patience)
			server.await(t, "joined")
			to.soak(t, loss, client, server)
			if to.name != jspServer.name {
				client.order(t, order{Do: "leave"})
				server.await(t, "left")
			}
		})
	}
}

func inWeathers(t *testing.T, c contender, test func(t *testing.T, loss float64)) {
	t.Helper()
	for _, loss := range weathers {
		t.Run(fmt.Sprintf("%s/loss %g%%", c.name, 100*loss), func(t *testing.T) {
			t.Parallel()
			test(t, loss)
		})
	}
}

// losesOnce chooses a share of the datagrams in one direction, but none whose equal it has chosen before, and none of
// the first ones in both directions.
func losesOnce(toServer bool, loss float64, spared int) func(toServer bool, datagram []byte) bool {
	rng, gone := rand.New(rand.NewPCG(1, 0)), make(map[string]bool)
	return func(up bool, datagram []byte) bool {
		if spared--; spared >= 0 || up != toServer || rng.Float64() >= loss || gone[string(datagram)] {
			return false
		}
		gone[string(datagram)] = true
		return true
	}
}

// lossy starts a lossy link between clients and a port, and returns its address. Without loss it returns the port
// itself.
func lossy(t *testing.T, at, port string, loss lossylink.Loss) (host, reached string) {
	t.Helper()
	if loss.ToServer == 0 && loss.ToClients == 0 && loss.Delay == 0 {
		return "127.0.0.1", port
	}
	l, err := lossylink.StartAt(netip.MustParseAddrPort(at), netip.MustParseAddrPort("127.0.0.1:"+port), 40, loss)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Stop() })
	return l.Addr().Addr().String(), portOf(t, l.Addr().String())
}

// soak sends numbered messages and a large one to an echo server. It checks that each arrives once and in order, in
// both directions.
func (c contender) soak(t *testing.T, loss float64, client, server *peer) {
	t.Helper()
	messages, atOnce, size := burst, 1000, min(cmp.Or(c.largest, large), large)
	if loss > 0 {
		size = min(cmp.Or(c.bears, size), size)
	}
	start := time.Now()
	for sent, back := 0, 0; back < messages; back++ {
		for ; sent < messages && sent < back+atOnce; sent++ {
			client.order(t, order{Do: "send", Reliable: true, Payload: numbered(sent)})
		}
		for _, p := range []*peer{server, client} {
			if got := p.await(t, "received").Payload; got != numbered(back) {
				t.Fatalf("%s: message %d is %.40s, want %s", p.name, back, got, numbered(back))
			}
		}
	}
	t.Logf("%d messages and their echoes took %v", messages, time.Since(start))
	start = time.Now()
	payload := largeMessage(size)
	client.order(t, order{Do: "send", Reliable: true, Payload: payload})
	for _, p := range []*peer{server, client} {
		if got := p.awaitWithin(t, "received", 6*patience).Payload; got != payload {
			t.Errorf("%s: a message of %d bytes is another, of %d", p.name, size, len(got)/2)
		}
	}
	t.Logf("%d bytes and their echo took %v", size, time.Since(start))
}

// largeMessage returns a message in which a missing or moved part shows.
func largeMessage(size int) string {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i * i >> 8)
	}
	b[0] = packetByte
	return hex.EncodeToString(b)
}
