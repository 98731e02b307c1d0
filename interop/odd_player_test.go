//go:build interop

package interop_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/raknet"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
	"tidegate/internal/testkit/oddplayer"
	"tidegate/internal/testkit/rakserver"
)

// oddPlayer visits by a route: the first one's messages have IDs, in the raw one they have none, the old one is for the
// protocols that share no port with newer ones, the streams are TCP, and the relayed one passes datagrams on.
type oddPlayer struct {
	route string
	oddplayer.Options
}

func calmCodec(name string) codec.Protocol { return protocols.Find(name).NewCalm(registry.Use{}) }

// oddStream is a player of Riptide over TCP.
func oddStream(name string, mangle func(*rand.Rand, []byte) []byte) oddplayer.Options {
	d := protocols.Find(name)
	return oddplayer.Options{
		Protocol: d.NewCalm(registry.Use{Stream: true}), Prefix: d.Stream.Prefix, Mangle: mangle,
	}
}

// oddRakNet is a player of one version, whose messages may end within a byte.
func oddRakNet(version uint8) oddplayer.Options {
	return oddplayer.Options{
		Protocol: raknet.New(raknet.Options{DialVersion: version, Bits: true, MaxParts: 2000}), Mangle: oddplayer.RakNet,
	}
}

// oddPlayers are the players who visit a server: of each protocol, by each route.
func oddPlayers(to contender) (all []oddPlayer) {
	riptide := oddplayer.Options{Protocol: calmCodec("riptide-2.2"), Mangle: oddplayer.Riptide}
	enet := oddplayer.Options{Protocol: calmCodec("enet"), Mangle: oddplayer.ENet}
	for _, route := range []string{"arena", "raw"} {
		all = append(all, oddPlayer{route, oddRakNet(11)}, oddPlayer{route, riptide}, oddPlayer{route, enet})
	}
	all = append(all, oddPlayer{"old", oddplayer.Options{Protocol: calmCodec("rudp"), Mangle: oddplayer.RUDP}},
		oddPlayer{"old", oddplayer.Options{Protocol: calmCodec("riptide-2.0"), Mangle: oddplayer.Riptide20}},
		oddPlayer{"stream", oddStream("riptide-2.2", oddplayer.Riptide)},
		oddPlayer{"old-stream", oddStream("riptide-2.0", oddplayer.Riptide20)})
	if to.relays() {
		all = append(all, oddPlayer{"relayed", relayedPlayer(to)})
	}
	return all
}

// relays reports whether players reach a server by a relay. serenityjs refuses the port of a relay. pytide ends by what
// Riptide's own players may send.
func (c contender) relays() bool { return c.name != "serenityjs" && c.protocol != "riptide-2.2" }

// relayedPlayer is an odd player of a server's own protocol. A relay passes on what it sends: go-raknet ends by one
// datagram with a split message of no parts, and the original RakNet by another. So their players change no datagram.
func relayedPlayer(to contender) oddplayer.Options {
	switch {
	case to.protocol == "enet":
		return oddplayer.Options{Protocol: calmCodec("enet"), Mangle: oddplayer.ENet}
	case to.name == blockingGoServer.name:
		return oddplayer.Options{Protocol: calmCodec("bedrock")}
	case to.protocol == "raknet":
		return oddplayer.Options{Protocol: raknet.New(raknet.Options{DialVersion: 6})}
	}
	return oddRakNet(11)
}

// oddRoutes is a configuration whose routes all lead to one server. A relay passes on what its players send: so each
// session there has an address of its own at the server, as docs/security/players.md asks for.
func oddRoutes(to contender, port string) string {
	listener := func(route string, protocols ...string) string {
		return fmt.Sprintf("[[listener]]\nname = %[1]q\naddress = \"127.0.0.1:0\"\nroute = %[1]q\nprotocols = [\"%s\"]\n",
			route, strings.Join(protocols, `", "`))
	}
	stream := func(route, protocol string) string { return listener(route, protocol) + "transport = \"tcp\"\n" }
	server := net.JoinHostPort("127.0.0.1", port)
	return listener("arena", "bedrock", "riptide-2.2", "enet") + listener("raw", "bedrock", "riptide-2.2", "enet") +
		listener("old", "riptide-2.0", "rudp") + stream("stream", "riptide-2.2") + stream("old-stream", "riptide-2.0") +
		listener("relayed", to.protocol) + fmt.Sprintf(`
[[route]]
name = "stream"
upstream = "server"
ordered = "fast"
allow_lossy = true
packet_id = %[1]d
[[route]]
name = "old-stream"
upstream = "server"
ordered = "fast"
allow_lossy = true
packet_id = %[1]d
[[route]]
name = "arena"
upstream = "server"
ordered = "fast"
allow_lossy = true
packet_id = %[1]d
[[route]]
name = "raw"
upstream = "server"
ordered = "fast"
allow_lossy = true
envelope = "raw"
[[route]]
name = "old"
upstream = "server"
ordered = "fast"
allow_lossy = true
packet_id = %[1]d
[[route]]
name = "relayed"
upstream = "own-addresses"
mode = "relay"
[[upstream]]
name = "server"
protocol = %[2]q
transport = %[4]q
servers = [%[3]q]
[[upstream]]
name = "own-addresses"
protocol = %[2]q
servers = [%[3]q]
sources = ["127.64.0.0/10"]
[log]
format = "json"
[admin]
listen = "off"
`, packetByte, to.protocol, server, cmp.Or(to.transport, udp))
}

// oddServers are servers of most libraries with their default options. Servers for few clients hold more, as odd
// players leave without a goodbye. pytide compares seconds since 1970 with milliseconds since its start: so it keeps
// the place of a direct player who vanishes for ever, as of ten after 60 s. Tidegate frees it by a goodbye: after 9 s
// for RakNet's players, 30 s for Riptide's. One may be lost, so the server has places for all visits of an hour.
func oddServers() []contender {
	crowded := func(c contender, in *runtime, script string, args ...string) contender {
		c.server = server(in, script, args...)
		return c
	}
	isStock := func(c contender) bool { return c.name == stockServer.name }
	return slices.Concat(slices.DeleteFunc(attackedServers(), isStock),
		[]contender{
			crowded(stockServer, stock, "stock_server.py", "100"), rustServer,
			crowded(pytideServers[0], python, "riptide_server.py", udp, "20000", "steady"),
			crowded(pytideServers[1], python, "riptide_server.py", tcp, "20000", "steady"),
		})
}

// witnesses are the libraries whose players talk to a server meanwhile, by their routes.
func witnesses(to contender) map[string]contender {
	all := map[string]contender{"arena": goClient, "relayed": goClient}
	switch to.protocol {
	case "raknet":
		all["relayed"] = stockClient
	case "enet":
		all["relayed"] = libenetContender
	case "riptide-2.2":
		all["arena"] = pytideClients[0] // and not go-raknet's reliable messages
	}
	if to.transport == tcp {
		all["stream"] = pytideClients[1]
	}
	if !to.relays() {
		delete(all, "relayed")
	}
	return all
}

// directPlayer is a library whose players speak a server's own protocol.
func directPlayer(to contender) contender {
	for _, route := range []string{"relayed", "stream"} {
		if by, known := witnesses(to)[route]; known {
			return by
		}
	}
	return witnesses(to)["arena"]
}

const (
	oddVisitors = 3                      // players who visit a server at once
	oddPause    = 500 * time.Millisecond // between two visits of a long run, which so leaves the machine to others
)

// TestOddPlayerHarmsNoOther has odd players of each protocol visit servers of every library with their default options,
// for TIDEGATE_ATTACK or some seconds. Two witnesses go on, one of them relayed, and a new player gets in. None is sent
// away or hears another player. Another witness plays meanwhile with an equal server, without attackers and Tidegate:
// so the machine's load counts for both. An answer by Tidegate needs the processors twice as often, so others wait at
// most twice as long and unnoticed. What go-raknet's own deadlock does to a witness is no fault of the players, as long
// as it comes no more often than it may without Tidegate (TestOddPlayersWithoutTidegate).
func TestOddPlayerHarmsNoOther(t *testing.T) {
	for _, to := range oddServers() {
		t.Run(to.name, func(t *testing.T) {
			t.Parallel()
			server := to.server(t)
			go ignore(server.events) // the odd players' messages
			between := runTidegate(t, oddRoutes(to, server.port), 6)
			go ignore(between.journal)
			var seen []*witness
			for route, c := range witnesses(to) {
				seen = append(seen, newWitness(t, c, to, between.ports[route]).on(route))
			}
			calm := to.server(t)
			go ignore(calm.events)
			direct := newWitness(t, directPlayer(to), to, calm.port)
			direct.contender.name, direct.isDirect = "a direct player, "+direct.contender.name, true
			done := make(chan struct{})
			time.AfterFunc(attackTime(t), func() { close(done) })
			visitors := visitOddly(t, oddPlayers(to), between.ports, done)
			stops := 0 // deadlocks of go-raknet
			for !closed(done) {
				if askAll(t, append(seen, direct)) {
					stops++
					// The server is deaf until the connection of the deadlock's reader times out, which may be another's.
					for begun := time.Now(); rakserver.Stuck() != "" && time.Since(begun) < time.Minute; {
						time.Sleep(100 * time.Millisecond)
					}
					seen = slices.DeleteFunc(seen, func(w *witness) bool { return w.gone })
					for route, c := range witnesses(to) {
						if !slices.ContainsFunc(seen, func(w *witness) bool { return w.route == route }) {
							seen = append(seen, newWitness(t, c, to, between.ports[route]).on(route))
						}
					}
				}
			}
			joined, visits := visitors()
			begun := time.Now()
			newWitness(t, directPlayer(to), to, calm.port)
			direct.longest = max(direct.longest, time.Since(begun))
			begun = time.Now()
			late := newWitness(t, witnesses(to)["arena"], to, between.ports["arena"])
			late.longest = time.Since(begun)
			seen = append(seen, late)
			for range 20 {
				if askAll(t, append(seen, direct)) {
					stops++
				}
			}
			checkStops(t, stops, visits)
			most := unnoticed + 2*direct.longest
			t.Logf("%s: %d answers, longest wait %v", direct.name(), direct.asked, direct.longest.Round(time.Millisecond))
			for _, w := range seen {
				t.Logf("%s: %d answers, longest wait %v, %d over a second", w.name(), w.asked,
					w.longest.Round(time.Millisecond), w.late)
				if w.longest > most {
					t.Errorf("%s waited for %v, want at most %v%s", w.name(), w.longest, most, w.fault())
				}
			}
			if attackTime(t) > time.Minute && slices.Contains(joined, 0) {
				t.Error("some players never got in: they try nothing")
			}
		})
	}
}

// TestOddPlayersWithoutTidegate is the control of TestOddPlayerHarmsNoOther: as many visitors come directly to servers
// whose own faults and pauses hold a witness. To go-raknet come the odd players of the relay: it shows how often the
// server's own deadlock holds a direct player. pytide ends by what odd players send, so to it come honest ones: they
// show how long its direct players wait. Over TCP it soon takes no more connections.
func TestOddPlayersWithoutTidegate(t *testing.T) {
	t.Parallel()
	players := map[string]oddplayer.Options{
		blockingGoServer.name: relayedPlayer(blockingGoServer),
		pytideServers[0].name: {Protocol: calmCodec("riptide-2.2"), Calm: true},
	}
	for _, to := range oddServers() {
		o, known := players[to.name]
		if !known {
			continue
		}
		t.Run(to.name, func(t *testing.T) {
			t.Parallel()
			server := to.server(t)
			go ignore(server.events)
			direct := newWitness(t, directPlayer(to), to, server.port)
			done := make(chan struct{})
			time.AfterFunc(attackTime(t), func() { close(done) })
			player := oddPlayer{"direct", o}
			visitors := visitOddly(t, []oddPlayer{player, player, player}, map[string]string{"direct": server.port}, done)
			stops := 0
			for !closed(done) {
				if askAll(t, []*witness{direct}) {
					stops++
					direct = newWitness(t, directPlayer(to), to, server.port)
				}
			}
			_, visits := visitors()
			checkStops(t, stops, visits)
			t.Logf("%d answers, longest wait %v, %d over a second", direct.asked, direct.longest.Round(time.Millisecond),
				direct.late)
		})
	}
}

// checkStops bounds the deadlocks of go-raknet by what a busy machine has without Tidegate.
func checkStops(t *testing.T, stops, visits int) {
	t.Helper()
	if most := 1 + visits/2000; stops > most {
		t.Errorf("go-raknet's deadlock held the players %d times in %d visits, want at most %d", stops, visits, most)
	}
	t.Logf("%d deadlocks of go-raknet in %d visits", stops, visits)
}

func ignore[T any](events <-chan T) {
	for range events {
	}
}

// visitOddly lets odd players visit in turn, some at once, until done is closed. The returned function waits for the
// last one, and returns how often each got in, and the number of visits.
func visitOddly(t *testing.T, players []oddPlayer, ports map[string]string, done <-chan struct{}) func() ([]int, int) {
	var mu sync.Mutex
	visits, joined := make([]int, len(players)), make([]int, len(players))
	var visitors sync.WaitGroup
	for first := range oddVisitors {
		visitors.Go(func() {
			seed := rand.Uint64()
			t.Logf("visitor %d: seed %d", first, seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			for i := first; !closed(done) && t.Context().Err() == nil; i = (i + oddVisitors) % len(players) {
				o := players[i].Options
				o.At = netipAt(ports[players[i].route])
				in := oddplayer.Visit(t, o, rng)
				mu.Lock()
				visits[i]++
				if in {
					joined[i]++
				}
				mu.Unlock()
				if attackTime(t) > time.Minute {
					<-time.After(oddPause)
				}
			}
		})
	}
	t.Cleanup(visitors.Wait) // also after a failure
	return func() ([]int, int) {
		visitors.Wait()
		t.Logf("visits %d, of them got in %d", visits, joined)
		sum := 0
		for _, n := range visits {
			sum += n
		}
		return joined, sum
	}
}

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// witness is a player that numbers its messages and waits for each echo.
type witness struct {
	contender
	*peer
	form    string // of its messages
	asked   int
	late    int // echoes that took more than a second
	longest time.Duration
	looked  bool   // at go-raknet's receivers
	stuck   string // stacks of go-raknet while this player waits, if its own deadlock holds it
	route   string

	isDirect bool // without Tidegate
	gone     bool // its library has failed
}

const (
	witnessPause = 50 * time.Millisecond  // between two messages
	witnessAgain = 400 * time.Millisecond // until a message of pytide's is repeated: it is unreliable
	witnessDoubt = 3 * time.Second        // of silence until a test looks why
)

func newWitness(t *testing.T, c, server contender, port string) *witness {
	t.Helper()
	w := &witness{contender: c, peer: c.client(t, port), form: "fe3412%08x"}
	if server.protocol == "enet" {
		w.form = "ff%08x" // without an ID
	}
	w.peer.awaitWithin(t, "connected", 3*patience)
	return w
}

// on notes the route of a witness.
func (w *witness) on(route string) *witness {
	w.route = route
	return w
}

// askAll asks all witnesses at once, and waits a little. It reports whether go-raknet's deadlock held some of them.
// They are gone then.
func askAll(t *testing.T, seen []*witness) (stopped bool) {
	t.Helper()
	var asking sync.WaitGroup
	for _, w := range seen {
		if w.gone {
			continue
		}
		asking.Go(func() {
			switch fault := w.ask(t); {
			case w.stuck != "":
				w.gone = true
				t.Logf("%s: %s%s", w.name(), fault, w.fault())
			case fault == "":
			case w.isDirect: // a fault of the library
				w.gone = true
				t.Logf("%s: %s%s", w.name(), fault, w.fault())
			default:
				t.Errorf("%s: %s%s", w.name(), fault, w.fault())
			}
		})
	}
	if asking.Wait(); t.Failed() {
		t.FailNow()
	}
	<-time.After(witnessPause)
	for _, w := range seen {
		stopped = stopped || w.stuck != ""
		w.stuck = ""
	}
	for end := time.Now().Add(time.Minute); stopped && rakserver.Stuck() != "" && time.Now().Before(end); {
		<-time.After(witnessDoubt)
	}
	return stopped
}

// ask sends a message and waits for its echo, and only for its own.
func (w *witness) ask(t *testing.T) (fault string) {
	t.Helper()
	w.asked++
	o := order{Do: "send", Reliable: !w.language.ids, ID: uint16(w.asked), Payload: fmt.Sprintf(w.form, w.asked)}
	sent, over, doubt := time.Now(), time.After(3*patience), time.After(witnessDoubt)
	for repeat := time.After(0); ; {
		select {
		case <-repeat:
			if err := w.do(o); err != nil {
				return err.Error()
			}
			repeat = nil
			if w.language.ids {
				repeat = time.After(witnessAgain)
			}
			continue
		case <-doubt:
			w.investigate(t)
			continue
		case <-over:
			if w.stuck == "" {
				w.longest = max(w.longest, time.Since(sent))
			}
			return fmt.Sprintf("message %d did not come back", w.asked)
		case e := <-w.events:
			if e.Event == "disconnected" {
				w.investigate(t)
				return fmt.Sprintf("was sent away: %+v", e)
			}
			if !w.hears(t, e, o) {
				continue
			}
		}
		break
	}
	wait := time.Since(sent)
	if w.stuck != "" {
		return fmt.Sprintf("waited for %v", wait)
	}
	w.longest = max(w.longest, wait)
	if wait > time.Second {
		w.late++
	}
	return ""
}

func (w *witness) name() string { return cmp.Or(w.contender.name, w.peer.name) }

// hears reports whether an event is the echo of an order. Late echoes of repeated messages are no fault.
func (w *witness) hears(t *testing.T, e event, o order) bool {
	t.Helper()
	if e.Event != "received" {
		return false
	}
	var n int
	if _, err := fmt.Sscanf(e.Payload, w.form, &n); err != nil || n > w.asked || len(e.Payload) != len(o.Payload) {
		t.Errorf("%s hears %s", w.name(), e.Payload)
	}
	return e.Payload == o.Payload
}

// investigate looks why an answer is late. All go-raknet servers and players are in this process.
func (w *witness) investigate(t *testing.T) {
	if stuck := rakserver.Stuck(); stuck != "" {
		w.stuck = stuck
		return
	}
	if w.looked {
		return
	}
	w.looked = true
	t.Logf("%s waits; no deadlock of go-raknet; its receivers:\n%s", w.name(), rakserver.Receivers())
}

// fault names the fault of go-raknet that held a witness, for a message of failure.
func (w *witness) fault() string {
	if w.stuck == "" {
		return ""
	}
	return ", while go-raknet's own deadlock held it (docs/interop/faults.md):\n" + w.stuck
}
