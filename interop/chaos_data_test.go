//go:build interop && chaos

package interop_test

import (
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandertv/go-raknet"

	"tidegate/codec"
	"tidegate/internal/lossylink"
	"tidegate/internal/testkit/await"
)

func readFull(r io.Reader, b []byte) (int, error) { return io.ReadFull(r, b) }

// moves has players talk while an operator moves all of them from one server to the other and back.
func moves(t *testing.T) string {
	const rounds, players = 6, 4
	var told []string
	for _, c := range []struct {
		protocol string
		server   func(t *testing.T) string
	}{
		{"riptide-2.2", func(t *testing.T) string {
			port := freePort(t)
			startCrowd(t, "riptide-2.2", udp, port)
			return port
		}},
		{"bedrock", func(t *testing.T) string { return startGoServer(t).port }},
	} {
		p := plan{players: c.protocol, server: c.protocol, servers: []string{c.server(t), c.server(t)}, more: calm,
			route: "hold_new_ids = true"}
		g := p.open(t)
		n := newCrowd(t, c.protocol, udp)
		for range players {
			n.dial(g.plan.port)
		}
		await.Until(t, "joined", func() bool { return n.up() == players })
		for round := range rounds {
			from := "127.0.0.1:" + g.plan.servers[round%2]
			moving := make(chan string, 1)
			go func() {
				out, code := g.command(t, "upstreams", "drain", "--move", "-c", g.file, "arena", from)
				if code != 0 {
					t.Error(out)
				}
				moving <- out
			}()
			talk := time.NewTicker(10 * time.Millisecond)
			for range 80 {
				<-talk.C
				n.say(n.reliable())
			}
			talk.Stop()
			<-moving
			if out, code := g.command(t, "upstreams", "undrain", "-c", g.file, "arena", from); code != 0 {
				t.Error(out)
			}
		}
		patient := time.Now().Add(5 * time.Second)
		for !n.echoed() && time.Now().Before(patient) {
			<-time.After(20 * time.Millisecond)
		}
		sent, lost, twice := 0, 0, 0
		n.do(func() {
			for _, e := range n.ends {
				sent += int(e.sent)
				for number := range e.sent {
					switch e.echoes[number] {
					case 0:
						lost++
					case 1:
					default:
						twice++
					}
				}
			}
		})
		if lost+twice > 0 || n.up() != players {
			t.Errorf("%s: %d lost, %d doubled, %d of %d players", c.protocol, lost, twice, n.up(), players)
		}
		told = append(told, fmt.Sprintf("%s: %d of %d lost, %d doubled", c.protocol, lost, sent, twice))
	}
	return strings.Join(told, "; ")
}

// notifyStall has players send notify messages while their server stands still for a while.
func notifyStall(t *testing.T) string {
	const players = 3
	port := freePort(t)
	server := startCrowd(t, "riptide-2.2", udp, port)
	p := plan{players: "riptide-2.2", server: "riptide-2.2", servers: []string{port}, more: calm}
	g := p.open(t)
	n := newCrowd(t, "riptide-2.2", udp)
	for range players {
		n.dial(g.plan.port)
	}
	await.Until(t, "joined", func() bool { return n.up() == players })
	var stalled sync.WaitGroup
	talk := time.NewTicker(time.Second / 60)
	defer talk.Stop()
	for i := range 300 {
		<-talk.C
		if i%100 == 50 {
			stalled.Go(func() { server.pause(500 * time.Millisecond) })
		}
		n.say(codec.Notify)
	}
	stalled.Wait()
	await.Until(t, "answered", n.echoed)
	for range 3 { // headers for the last ones
		n.say(codec.Notify)
	}
	await.Until(t, "answered", n.echoed)
	sent, lost := 0, 0
	n.do(func() {
		for _, e := range n.ends {
			sent, lost = sent+int(e.sent), lost+e.told[0]
		}
	})
	if lost > 0 {
		t.Errorf("%d of %d messages were told lost, and arrived", lost, sent)
	}
	return fmt.Sprintf("%d of %d told lost, all arrived", lost, sent)
}

// stockPlan is the plan for stock clients and a stock server.
func stockPlan(port string) plan {
	return plan{players: "raknet", server: "raknet", servers: []string{port}, more: "[raknet]\nmax_message = \"2MiB\""}
}

// tenMegabytes has a server send ten messages of a megabyte at once, directly and through Tidegate.
func tenMegabytes(t *testing.T) string {
	const megabytes = 10
	time10 := func(through bool) time.Duration {
		server := startServer(t, stock, "stock_server.py")
		port := server.port
		if through {
			port = stockPlan(port).open(t).plan.port
		}
		client := startScript(t, stock, "stock_client.py", port)
		client.await(t, "connected")
		server.await(t, "joined")
		began := time.Now()
		for range megabytes {
			server.order(t, order{Do: "flood", ID: 1000})
		}
		for range megabytes {
			if got := len(client.await(t, "received").Payload) / 2; got != 1000000 {
				t.Errorf("a message of %d bytes", got)
			}
		}
		return time.Since(began)
	}
	direct, through := time10(false), time10(true)
	if through > 2*direct+500*time.Millisecond {
		t.Errorf("%v, directly %v", through, direct)
	}
	return fmt.Sprintf("%s, directly %s", seconds(through), seconds(direct))
}

// lossyUpload has a client send 300 kB over a lossy path, at the same time directly and through Tidegate.
func lossyUpload(t *testing.T) string {
	const size = 300_000
	var took [2]time.Duration
	t.Run("ways", func(t *testing.T) {
		for i := range took {
			t.Run([]string{"directly", "through"}[i], func(t *testing.T) {
				t.Parallel()
				server := startServer(t, stock, "stock_server.py")
				port := server.port
				if i == 1 {
					port = stockPlan(port).open(t).plan.port
				}
				_, port = lossy(t, "127.0.0.1:0", port, lossylink.Loss{ToServer: 0.2, ToClients: 0.2})
				client := startScript(t, stock, "stock_client.py", port)
				client.await(t, "connected")
				server.await(t, "joined")
				payload := make([]byte, size)
				payload[0] = packetByte
				began := time.Now()
				client.order(t, order{Do: "send", Reliable: true, Payload: hex.EncodeToString(payload)})
				server.awaitWithin(t, "received", 3*patience)
				took[i] = time.Since(began)
			})
		}
	})
	if took[1] > took[0]*9/5+3*time.Second {
		t.Errorf("%v, directly %v", took[1], took[0])
	}
	return fmt.Sprintf("%s, directly %s", seconds(took[1]), seconds(took[0]))
}

// refusals asks stock servers that refuse, through Tidegate.
func refusals(t *testing.T) string {
	var told []string
	for _, c := range stockRefusals {
		g := stockPlan(c.server(t)).open(t)
		got := startScript(t, stock, "stock_client.py", g.plan.port).await(t, "refused").Reason
		if got != c.want {
			t.Errorf("%s: the client was told %d, want %d", c.name, got, c.want)
		}
		told = append(told, fmt.Sprintf("%s %d", c.name, got))
	}
	return strings.Join(told, ", ")
}

// listPings asks for the text of a server list many times through a route that relays.
func listPings(t *testing.T) string {
	const pings, unread = 20, 200
	listener, err := raknet.ListenConfig{BlockDuration: -1}.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	port := portOf(t, listener.Addr().String())
	listener.PongData([]byte("MCPE;the arena;844;1.21.111;0;100;1;x;Survival;1;" + port + ";" + port + ";"))
	p := plan{players: "bedrock", server: "bedrock", servers: []string{port},
		route: "mode = \"relay\"\npong = \"upstream\"", more: "[limits]\nping_answers = 100000"}
	g := p.open(t)
	ours := ";" + g.plan.port + ";"
	await.Until(t, "answered with the text of the server", func() bool {
		text, err := raknet.Ping(net.JoinHostPort("127.0.0.1", g.plan.port))
		return err == nil && strings.Contains(string(text), "the arena")
	})
	for range pings {
		text, err := raknet.Ping(net.JoinHostPort("127.0.0.1", g.plan.port))
		if err != nil || !strings.Contains(string(text), ours) {
			t.Fatalf("was told %q, %v", text, err)
		}
	}
	for range unread {
		s := newStranger(t, g.plan.port)
		s.say(t, slices.Concat([]byte{1}, make([]byte, 8), magic, make([]byte, 8)))
	}
	out, code := g.command(t, "sessions", "list", "--json", "-c", g.file)
	if code != 0 || strings.Contains(out, "{") {
		t.Errorf("there are sessions: %s", out)
	}
	return fmt.Sprintf("%d of %d with the proxy's port, %d more sent, 0 sessions", pings, pings, unread)
}
