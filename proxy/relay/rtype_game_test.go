package relay

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"tidegate/codec/codectest/simnet"
	"tidegate/codec/rtype"
	"tidegate/internal/testkit/heavy"
	"tidegate/internal/testkit/rtypegame"
	"tidegate/internal/upstream"
)

// gameNames are the components of the real game.
var gameNames = []string{
	"Action", "Visible", "Health", "Acceleration", "Controllable", "Scale", "Damage",
	"Velocity", "Collider", "Gun", "Type", "Position", "SpriteID", "DeathRange",
}

// births are the first components of the real game's entities, with their sizes.
var births = map[string]int{
	"Position": 12, "Velocity": 9, "Health": 8, "Collider": 8, "SpriteID": 20, "Scale": 8, "Type": 1, "Damage": 4,
}

// outbox holds the datagrams that a peer has to send.
type outbox struct {
	out []simDatagram
}

func (o *outbox) Transmit(_ time.Time, b []byte) ([]byte, netip.AddrPort, netip.AddrPort, bool) {
	if len(o.out) == 0 {
		return b, netip.AddrPort{}, netip.AddrPort{}, false
	}
	d := o.out[0]
	o.out = o.out[1:]
	return append(b, d.bytes...), d.from, d.to, true
}

func (o *outbox) Advance(time.Time)      {}
func (o *outbox) NextTimeout() time.Time { return time.Time{} }

// realServer is the game's server in the simulated network.
type realServer struct {
	outbox
	*rtypegame.Server
	rng *rand.Rand
}

func (s *realServer) Receive(now time.Time, from, _ netip.AddrPort, d []byte) {
	s.Server.Receive(now, from, d)
}

// realClient is the game's client in the simulated network.
type realClient struct {
	outbox
	*rtypegame.Client
	addr netip.AddrPort
	told map[byte]int // datagrams by their first byte
	said map[byte]int
}

func (c *realClient) Receive(_ time.Time, _, _ netip.AddrPort, d []byte) {
	c.told[d[0]]++
	c.Client.Receive(d)
	c.speak()
}

func (c *realClient) speak() {
	for d, ok := c.Next(); ok; d, ok = c.Next() {
		c.said[d[0]]++
		c.out = append(c.out, simDatagram{c.addr, listenerAddr, d})
	}
}

// realGame is a proxy between the game's own peers.
type realGame struct {
	*world
	stage   rtypegame.Stage
	server  *realServer
	clients []*realClient
	weather simnet.Weather // weather of the path to initialised clients
}

// gameAddr is the real server's address.
var gameAddr = netip.MustParseAddrPort("10.1.0.9:7777")

var gameDialects = map[rtypegame.Stage]rtype.Dialect{
	rtypegame.Early: rtype.Game16, rtypegame.Late: rtype.Game32, rtypegame.Final: rtype.GameLast,
}

func newRealGame(t *testing.T, seed uint64, stage rtypegame.Stage, o rtype.Options, change func(*Settings)) *realGame {
	o.Dialect = gameDialects[stage]
	return newAutoGame(t, seed, stage, o, change)
}

// newAutoGame is newRealGame with the dialect of the options.
func newAutoGame(t *testing.T, seed uint64, stage rtypegame.Stage, o rtype.Options, change func(*Settings)) *realGame {
	o.Seed = [32]byte{1}
	p := rtype.New(o)
	g := &realGame{stage: stage}
	route := matrixRoute(p, p)
	route.Upstream.Servers = []upstream.Target{{Addr: gameAddr}}
	g.world = newWorldWith(t, seed, simnet.Weather{Latency: 2 * time.Millisecond}, p, route, change)
	g.startServer(seed)
	return g
}

// startServer starts the game's server, which knows no client.
func (g *realGame) startServer(seed uint64) {
	s := &realServer{rng: rand.New(rand.NewPCG(seed, 3))}
	s.Server = rtypegame.NewServer(g.stage, gameNames, func(to netip.AddrPort, d []byte) {
		s.out = append(s.out, simDatagram{gameAddr, to, d})
	})
	g.server = s
	g.Add(s, gameAddr)
}

// enter lets a client join, and gives its path the weather after its initialisation.
func (g *realGame) enter() *realClient {
	g.t.Helper()
	types := slices.Clone(gameNames)
	if g.stage == rtypegame.Final {
		types = slices.DeleteFunc(types, func(name string) bool { return name == "Action" || name == "Scale" })
	}
	c := &realClient{Client: rtypegame.NewClient(g.stage, types...), addr: playerAddr(len(g.clients))}
	c.told, c.said = make(map[byte]int), make(map[byte]int)
	g.clients = append(g.clients, c)
	g.Add(c, c.addr)
	c.speak()
	for tries := 0; !c.Ready(); tries++ {
		if tries == 200 {
			g.t.Fatal("a client is not initialised")
		}
		g.play(frameTime, true)
	}
	g.SetPath(listenerAddr, c.addr, g.weather)
	return c
}

// data returns random content of a component.
func (s *realServer) data(name string) []byte {
	data := make([]byte, births[name])
	for i := range data {
		data[i] = byte(s.rng.IntN(256))
	}
	return data
}

// frame plays one frame. Entities are born and die while the game is lively, and most of them move.
func (s *realServer) frame(now time.Time, lively bool) {
	if lively && s.rng.IntN(4) == 0 {
		components := make(map[string][]byte)
		for name := range births {
			components[name] = nil
		}
		for _, name := range gameNames { // in an order that depends on the seed
			if _, ok := components[name]; ok {
				components[name] = s.data(name)
			}
		}
		s.Spawn(components)
	}
	alive := make([]uint32, 0, len(s.World))
	for e := range s.World {
		alive = append(alive, e)
	}
	slices.Sort(alive)
	if lively && len(alive) > 20 {
		s.Kill(alive[s.rng.IntN(10)])
		alive = slices.DeleteFunc(alive, func(e uint32) bool { return s.World[e] == nil })
	}
	for _, e := range alive {
		if e%3 != 0 { // the others are scenery
			s.Update(e, "Position", s.data("Position"))
		}
	}
	s.Frame(now)
}

const frameTime = 50 * time.Millisecond

// play plays for a time.
func (g *realGame) play(d time.Duration, lively bool) {
	for range d / frameTime {
		g.server.frame(g.Now(), lively)
		g.Run(frameTime)
	}
}

// compare sums the differences between the clients' worlds and the server's. It ignores the masks of entities.
func (g *realGame) compare() (d rtypegame.Difference, made int) {
	for _, c := range g.clients {
		d.Add(rtypegame.Compare(g.server.World, g.unmasked(c), "Action", "Scale"))
		made += c.Made
	}
	return d, made
}

// unmasked returns a client's world with the server's entities. It uses the mask that makes most of them equal.
func (g *realGame) unmasked(c *realClient) rtypegame.World {
	votes := make(map[uint32]int)
	best := uint32(0)
	for e, have := range c.World {
		for f, components := range g.server.World {
			if string(have["SpriteID"]) == string(components["SpriteID"]) && have["SpriteID"] != nil {
				if votes[e^f]++; votes[e^f] > votes[best] {
					best = e ^ f
				}
			}
		}
	}
	w := make(rtypegame.World)
	for e, components := range c.World {
		w[e^best] = components
	}
	return w
}

// TestRealClientsWorlds compares the worlds of the game's own clients with their server's after a lively game.
// Without losses they are equal. With losses a refresh repairs 95 % of the faults and never harms. The log has the
// sums of all seeds.
func TestRealClientsWorlds(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and all in one goroutine")
	}
	seeds := simnet.Seeds(2)
	if !heavy.Runs() {
		seeds = seeds[:1]
	}
	t.Logf("%d seeds: stage clients loss refresh | missing ghosts components values | entities made", len(seeds))
	for _, stage := range []rtypegame.Stage{rtypegame.Late, rtypegame.Final} {
		for _, clients := range []int{1, 4, 8} {
			born := make(map[uint64]int) // entities, by seed
			for _, loss := range []float64{0, 0.05, 0.20} {
				var without, with playedWorlds
				for _, seed := range seeds {
					plain := playGame(t, seed, stage, clients, loss, 0)
					repaired := playGame(t, seed, stage, clients, loss, time.Second)
					if loss == 0 {
						born[seed] = plain.made
					}
					if repaired.worse(&plain) || loss == 0 && plain.Sum()+repaired.Sum() > 0 {
						t.Errorf("seed %d, %v, %d clients, loss %v: %+v with refresh, %+v without", seed, stage, clients, loss,
							repaired, plain)
					}
					if repaired.made > 4*born[seed] { // a create is repeated three times
						t.Errorf("seed %d, %v, %d clients, loss %v: %d entities made with refresh, %d were born", seed, stage,
							clients, loss, repaired.made, born[seed])
					}
					without.add(plain)
					with.add(repaired)
				}
				if with.Sum() > without.Sum()/20 {
					t.Errorf("%v, %d clients, loss %v: refresh leaves %d of %d faults", stage, clients, loss,
						with.Sum(), without.Sum())
				}
				t.Logf("%5v %d %3.0f%%  off | %v", stage, clients, 100*loss, without)
				t.Logf("%5v %d %3.0f%%   on | %v", stage, clients, 100*loss, with)
			}
		}
	}
}

// TestRunningLastGame lets players of the last game join a running one through the automatic dialect. All start, and
// have its world. The talk about components stays short.
func TestRunningLastGame(t *testing.T) {
	g := newAutoGame(t, 1, rtypegame.Final, rtype.Options{}, func(*Settings) {})
	for range 20 {
		g.server.frame(g.Now(), true)
	}
	for range 3 {
		g.enter()
		g.play(8*time.Second, true)
	}
	g.play(2*time.Second, false)
	if d, _ := g.compare(); d.Sum() > 0 {
		t.Errorf("the worlds differ: %+v", d)
	}
	for i, c := range g.clients {
		if c.told[6] > 40 || c.said[1] > 40 {
			t.Errorf("player %d: %d counts, and %d times a component is ignored", i, c.told[6], c.said[1])
		}
	}
}

// TestSilentGameIsHeld kills the game's server while its player is silent, and starts it again. The session is held
// soon, and goes on with the new server's world.
func TestSilentGameIsHeld(t *testing.T) {
	for _, stage := range []rtypegame.Stage{rtypegame.Late, rtypegame.Final} {
		g := newRealGame(t, 1, stage, rtype.Options{}, func(s *Settings) { s.Listeners[0].Route.Failover.Hold = time.Minute })
		g.server.frame(g.Now(), true)
		g.enter()
		g.play(2*time.Second, true)
		g.Remove(gameAddr)
		g.await("held", 6*time.Second, func() bool { return g.proxy.relay.counters.Held == 1 })
		g.startServer(2)
		g.play(3*time.Second, true)
		g.play(time.Second, false)
		if d, _ := g.compare(); g.proxy.relay.counters.Regained != 1 || d.Missing+d.Ghosts > 0 {
			t.Errorf("stage %v: regained %d times, the worlds differ: %+v", stage, g.proxy.relay.counters.Regained, d)
		}
	}
}

// playedWorlds is the difference between the clients' worlds and the server's after a game.
type playedWorlds struct {
	rtypegame.Difference
	made int // entities in all clients, with leaked ones
}

// worse reports whether any count of differences is higher than in other.
func (p *playedWorlds) worse(other *playedWorlds) bool {
	return p.Missing > other.Missing || p.Ghosts > other.Ghosts ||
		p.Components > other.Components || p.Values > other.Values
}

func (p *playedWorlds) add(other playedWorlds) {
	p.Add(other.Difference)
	p.made += other.made
}

// String returns a row of the table in docs/protocols/rtype/repair.md.
func (p playedWorlds) String() string {
	return fmt.Sprintf("%d | %d | %d | %d | %d", p.Missing, p.Ghosts, p.Components, p.Values, p.made)
}

func playGame(t *testing.T, seed uint64, stage rtypegame.Stage, clients int, loss float64,
	refresh time.Duration) (p playedWorlds) {
	g := newRealGame(t, seed, stage, rtype.Options{Refresh: refresh}, func(*Settings) {})
	g.weather = simnet.Weather{Latency: 2 * time.Millisecond, Loss: loss}
	g.server.frame(g.Now(), true)
	for range (clients + 1) / 2 {
		g.enter()
	}
	g.play(4*time.Second, true)
	for len(g.clients) < clients { // the others are late
		g.enter()
	}
	g.play(8*time.Second, true)
	g.play(6*time.Second, false)
	g.Run(8 * time.Second) // time for as many refreshes, or for none
	p.Difference, p.made = g.compare()
	return p
}

// TestRealInitialisation loses datagrams of the initialisation. Few of the game's own clients survive that, with or
// without a proxy. With copies of its parts, most survive. All clients of the last game survive, because their
// answers show their losses.
func TestRealInitialisation(t *testing.T) {
	heavy.Skip(t)
	whole := func(stage rtypegame.Stage, loss float64, copies int) (n int) {
		const clients = 60
		g := newRealGame(t, 5, stage, rtype.Options{Copies: copies}, func(s *Settings) {
			s.Limits.Sessions, s.Limits.HalfOpen = 200, 200
		})
		for i := range clients {
			c := &realClient{Client: rtypegame.NewClient(g.stage, gameNames...), addr: playerAddr(i)}
			c.told, c.said = make(map[byte]int), make(map[byte]int)
			g.SetPath(listenerAddr, c.addr, simnet.Weather{Latency: 2 * time.Millisecond, Loss: loss})
			if stage == rtypegame.Final {
				g.After(100*time.Millisecond, func() { // no peer repairs a lost hello
					g.SetPath(c.addr, listenerAddr, simnet.Weather{Latency: 2 * time.Millisecond, Loss: loss})
				})
			}
			g.clients = append(g.clients, c)
			g.Add(c, c.addr)
			c.speak()
		}
		g.play(7*time.Second, true)
		for _, c := range g.clients {
			if isWhole(c) && len(c.World) > 0 {
				n++
			}
		}
		t.Logf("stage %d, loss %v, %d copies: %d of %d clients play with all components", stage, loss, copies, n, clients)
		return 100 * n / clients
	}
	for _, c := range []struct {
		stage       rtypegame.Stage
		loss        float64
		copies      int
		least, most int // per cent
	}{
		{rtypegame.Late, 0, 1, 100, 100}, {rtypegame.Late, 0, 3, 100, 100},
		{rtypegame.Late, 0.05, 1, 0, 60}, {rtypegame.Late, 0.05, 3, 95, 100},
		{rtypegame.Late, 0.20, 1, 0, 20}, {rtypegame.Late, 0.20, 4, 90, 100},
		{rtypegame.Early, 0, 1, 100, 100}, {rtypegame.Early, 0.05, 3, 95, 100},
		{rtypegame.Final, 0, 1, 100, 100}, {rtypegame.Final, 0.05, 1, 100, 100}, {rtypegame.Final, 0.20, 1, 100, 100},
	} {
		if n := whole(c.stage, c.loss, c.copies); n < c.least || n > c.most {
			t.Errorf("stage %d, loss %v, %d copies: %d %% of the clients are whole, want %d to %d",
				c.stage, c.loss, c.copies, n, c.least, c.most)
		}
	}
}

// isWhole reports whether a client knows all components by their right names.
func isWhole(c *realClient) bool {
	for i, name := range gameNames {
		if c.Names()[uint16(i)] != name {
			return false
		}
	}
	return c.Ready()
}

// TestRealServerStartsAgain asserts that a held client continues at a restarted server, without ghosts of the old
// world.
func TestRealServerStartsAgain(t *testing.T) {
	for _, stage := range []rtypegame.Stage{rtypegame.Late, rtypegame.Final} {
		g := newRealGame(t, 3, stage, rtype.Options{ServerTimeout: time.Second}, func(s *Settings) {
			s.Listeners[0].Route.Failover = Failover{Hold: time.Minute}
			s.Listeners[0].Route.Upstream.Options.RetryAfter = 100 * time.Millisecond
		})
		c := g.enter()
		g.play(5*time.Second, true)
		old := g.server.Server
		g.server.Server = rtypegame.NewServer(stage, gameNames, old.Out)
		for range 5 {
			g.server.Spawn(map[string][]byte{"SpriteID": fmt.Append(nil, "sprite ", len(g.server.World)), "Position": {1}})
		}
		g.play(10*time.Second, false)
		if d, _ := g.compare(); d.Sum() != 0 || c.Ended || len(c.World) != 5 {
			t.Errorf("stage %d: %+v, %d entities, ended %v", stage, d, len(c.World), c.Ended)
		}
	}
}
