//go:build interop && chaos

package interop_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/internal/lossylink"
	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/rtypegame"
)

// calm keeps sessions of our own crowds through pauses of a busy machine.
const calm = "[riptide]\nquality_disconnect = false\ntimeout = \"15s\"\n[rudp]\nrate = 30\n"

// riptideToBedrock is the plan for our Riptide players on a go-raknet server.
func riptideToBedrock(port string) plan {
	return plan{players: "riptide-2.2", server: "bedrock", servers: []string{port}, more: calm,
		route: fmt.Sprintf("packet_id = %d\nordered = \"fast\"", packetByte)}
}

// lossyJoins has players come to one server behind a lossy path.
func lossyJoins(t *testing.T) string {
	const wave, waves = 12, 5
	server := startGoServer(t)
	link, err := lossylink.StartAt(netipAt("0"), netipAt(server.port), 10*wave*waves,
		lossylink.Loss{ToServer: 0.1, ToClients: 0.1}) // each join has a socket of its own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { link.Stop() })
	p := riptideToBedrock(portOf(t, link.Addr().String()))
	g := p.open(t)
	players := newCrowd(t, "riptide-2.2", udp)
	var slowest time.Duration
	for range waves {
		for range wave {
			players.dial(g.plan.port)
		}
		await.Until(t, "decided", func() bool { return players.count(func(e *end) bool { return !e.up && !e.gone }) == 0 })
	}
	failed := ""
	players.do(func() {
		for _, e := range players.ends {
			slowest = max(slowest, e.took)
			if e.gone && !e.up {
				failed += fmt.Sprintf(", one fails after %s: %s", seconds(e.took), e.reason)
			}
			if e.gone && !e.up && e.took < 2*time.Second {
				t.Errorf("a player was refused after %v: %s", e.took, e.reason)
			}
		}
	})
	if players.up() < wave*waves*9/10 {
		t.Errorf("%d of %d players joined", players.up(), wave*waves)
	}
	return fmt.Sprintf("%d of %d join, the slowest after %s%s", players.up(), wave*waves, seconds(slowest), failed)
}

// crowds has 80 players of each protocol come at the same instant.
func crowds(t *testing.T) string {
	const many = 80
	server := startServer(t, python, "riptide_server.py", udp, "100")
	p := plan{players: "riptide-2.2", server: "riptide-2.2", servers: []string{server.port}, more: calm}
	g := p.open(t)
	riptide := newCrowd(t, "riptide-2.2", udp)
	for range many {
		riptide.dial(g.plan.port)
	}
	await.Until(t, "decided", func() bool { return riptide.up()+riptide.gone() == many })
	var slowest time.Duration
	riptide.do(func() {
		for _, e := range riptide.ends {
			slowest = max(slowest, e.took)
			if e.gone {
				t.Errorf("a Riptide player was refused for %s", e.reason)
			}
		}
	})
	other := bedrock(t, startGoServer(t)).open(t)
	players := make([]goPlayer, many)
	var joining sync.WaitGroup
	for i := range players {
		joining.Go(func() { players[i] = joins(t, other.plan.port) })
	}
	joining.Wait()
	last := slices.MaxFunc(players, func(a, b goPlayer) int { return int(a.took - b.took) })
	return fmt.Sprintf("Riptide %d of %d, the slowest after %s; RakNet %d of %d, %s", riptide.up(), many, seconds(slowest),
		many, many, seconds(last.took))
}

// forgedConnects sends Connects whose senders never answer, and looks at what the game notices.
func forgedConnects(t *testing.T) string {
	const forgers = 60
	server := startServer(t, python, "riptide_server.py", udp, "100")
	p := plan{players: "riptide-2.2", server: "riptide-2.2", servers: []string{server.port}, more: calm}
	g := p.open(t)
	for i := range forgers {
		from := &net.UDPAddr{IP: net.IPv4(127, 0, byte(i/8+1), byte(i+1))} // of 8 networks
		forger, err := net.DialUDP("udp", from, net.UDPAddrFromAddrPort(netipAt(g.plan.port)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = forger.Close() })
		if _, err := forger.Write([]byte{0x02}); err != nil {
			t.Fatal(err)
		}
	}
	const least = 20 // there are places for so many at once
	for range least {
		server.await(t, "asked")
	}
	client := startScript(t, python, "riptide_client.py", g.plan.port, udp)
	id := client.awaitWithin(t, "connected", patience).Client
	if joined := server.await(t, "joined").Client; joined != id {
		t.Errorf("client %d joined, want only %d", joined, id)
	}
	client.order(t, order{Do: "send", ID: 1, Reliable: true, Payload: "c0ffee"})
	server.await(t, "received") // by now it has told of all that joined
	ghosts, asked := 0, least
	for _, e := range server.passed {
		switch e.Event {
		case "joined":
			ghosts++
		case "asked":
			asked++
		}
	}
	if ghosts > 0 {
		t.Errorf("%d forged players joined", ghosts)
	}
	return fmt.Sprintf("the server is asked %d times, %d ghosts join; the real player joins", asked-1, ghosts)
}

// held is one protocol whose server is killed and comes back.
type held struct {
	protocol, by string
	server       func(t *testing.T, port string) (kill func())
}

// holdHeld are the servers of holds, real ones where there is one.
var holdHeld = []held{
	{"raknet", udp, scripted(stock, "stock_server.py", "30")},
	{"riptide-2.2", udp, scripted(python, "riptide_server.py", udp, "30")},
	{"riptide-2.2", tcp, scripted(python, "riptide_server.py", tcp, "30")},
	{"riptide-2.0", udp, ownServer("riptide-2.0", udp)},
	{"rudp", udp, ownServer("rudp", udp)},
	{"enet", udp, ownServer("enet", udp)},
}

func scripted(in *runtime, name string, args ...string) func(t *testing.T, port string) func() {
	return func(t *testing.T, port string) func() {
		server := startScript(t, in, name, port, args...)
		server.awaitWithin(t, "listening", 3*patience)
		return func() { _ = server.kill() }
	}
}

func ownServer(protocol, by string) func(t *testing.T, port string) func() {
	return func(t *testing.T, port string) func() { return startCrowd(t, protocol, by, port).kill }
}

// outage is how long a server is away.
const outage = 3 * time.Second

const holding = "failover = \"hold\"\nhold_time = \"30s\""

// holds kills a server of each protocol, has it back after 3 s, and times the players' next echo.
func holds(t *testing.T) string {
	var took []string
	var slowest time.Duration
	var mu sync.Mutex
	note := func(name string, late time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		slowest = max(slowest, late)
		took = append(took, fmt.Sprintf("%s %s", name, seconds(late)))
	}
	t.Run("protocols", func(t *testing.T) {
		for _, h := range holdHeld {
			t.Run(h.protocol+"-"+h.by, func(t *testing.T) {
				t.Parallel()
				note(h.protocol+" "+h.by, hold(t, h, 3))
			})
		}
		t.Run("rtype-32", func(t *testing.T) {
			t.Parallel()
			note("rtype-32", holdRType(t))
		})
	})
	if slowest > 2*time.Second {
		t.Errorf("the slowest took %v", slowest)
	}
	return "all kept; after the return: " + strings.Join(took, ", ")
}

// hold returns how long after the server's return the last player was answered.
func hold(t *testing.T, h held, players int) time.Duration {
	port := freePort(t)
	kill := h.server(t, port)
	p := plan{players: h.protocol, server: h.protocol, serverBy: h.by, playersBy: h.by, servers: []string{port},
		route: holding + "\nhold_new_ids = true", more: calm}
	if h.protocol == "rudp" {
		p.route += "\nreliable = \"resend\""
	}
	g := p.open(t)
	n := newCrowd(t, h.protocol, h.by)
	for range players {
		n.dial(g.plan.port)
	}
	await.Until(t, "joined", func() bool { return n.up() == players })
	mode := n.reliable()
	n.say(mode)
	await.Until(t, "answered", n.echoed)
	kill()
	for range players {
		g.await(t, "session held")
	}
	<-time.After(outage)
	h.server(t, port)
	back := time.Now()
	await.Until(t, "answered by the restarted server", func() bool {
		n.say(mode) // unreliable messages do not wait for the server
		return n.count(func(e *end) bool { return e.newest > 0 }) == players
	})
	if n.up() != players {
		t.Errorf("%d of %d players are left", n.up(), players)
	}
	return time.Since(back)
}

// holdRType is hold with the game's own server and client: the world of the restarted server replaces the old one.
func holdRType(t *testing.T) time.Duration {
	stage := rtypegame.Late
	server := newRTypeServer(t, stage)
	address := server.socket.LocalAddr().String()
	_, port, _ := net.SplitHostPort(address)
	p := plan{players: "rtype-32", server: "rtype-32", servers: []string{port}, route: holding,
		more: "[rtype]\nserver_timeout = \"1s\""}
	g := p.open(t)
	player := newRTypePlayer(t, stage, netipAt(g.plan.port))
	server.play(time.Second)
	_ = server.socket.Close()
	server.wait.Wait()
	g.await(t, "session held")
	<-time.After(outage)
	again := newRTypeServerAt(t, stage, address)
	back := time.Now()
	again.wait.Go(func() { again.play(3 * time.Second) })
	g.await(t, "session regained")
	late := time.Since(back)
	await.Until(t, "the new world", func() bool {
		player.mu.Lock()
		defer player.mu.Unlock()
		return rtypegame.Compare(again.world(), again.unmask(player.client.World)).Missing == 0 &&
			len(player.client.World) == len(again.world())
	})
	_ = again.socket.Close()
	return late
}

// holdTwenty restarts a Riptide server under 20 players, who keep their client IDs.
func holdTwenty(t *testing.T) string {
	const players = 20
	port := freePort(t)
	server := startCrowd(t, "riptide-2.2", udp, port)
	p := plan{players: "riptide-2.2", server: "riptide-2.2", servers: []string{port}, route: holding, more: calm}
	g := p.open(t)
	n := newCrowd(t, "riptide-2.2", udp)
	for i := range players {
		n.dial(g.plan.port)
		await.Until(t, "joined", func() bool { return n.up() == i+1 })
	}
	server.kill()
	for range players {
		g.await(t, "session held")
	}
	n.say(codec.Reliable)
	startCrowd(t, "riptide-2.2", udp, port)
	back := time.Now()
	await.Until(t, "answered", func() bool { return n.echoed() || n.gone() > 0 })
	late := time.Since(back)
	if n.up() != players {
		t.Errorf("%d of %d players are left", n.up(), players)
	}
	return fmt.Sprintf("%d of %d, the last after %s", n.up(), players, seconds(late))
}

// connectOnce counts the Connects on each connection to a server that accepts late.
func connectOnce(t *testing.T) string {
	const players = 20
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	port := portOf(t, server.Addr().String())
	p := plan{players: "riptide-2.0", server: "riptide-2.0", serverBy: tcp, servers: []string{port}, more: calm}
	g := p.open(t)
	n := newCrowd(t, "riptide-2.0", udp)
	for range players {
		n.dial(g.plan.port)
	}
	<-time.After(1200 * time.Millisecond) // it is busy
	connects := make(chan int, players)
	for range players {
		conn, err := server.Accept()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer conn.Close()
			_ = conn.SetReadDeadline(time.Now().Add(2500 * time.Millisecond))
			count := 0
			for length := make([]byte, 2); ; count++ { // 2.0 has two bytes of length
				if _, err := readFull(conn, length); err != nil {
					break
				}
				if _, err := readFull(conn, make([]byte, binary.LittleEndian.Uint16(length))); err != nil {
					break
				}
			}
			connects <- count
		}()
	}
	most, least := 0, players
	for range players {
		c := <-connects
		most, least = max(most, c), min(least, c)
	}
	if most != 1 || least != 1 {
		t.Errorf("a connection had %d to %d Connects, want 1", least, most)
	}
	return fmt.Sprintf("%d connections, %d Connect each", players, most)
}
