package daemon

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/codec/endpoint"
	"tidegate/internal/fleet"
	"tidegate/internal/policy"
	"tidegate/internal/protocols"
	"tidegate/internal/registry"
	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/udppath"
	"tidegate/internal/upstream"
	"tidegate/proxy"
	crossing "tidegate/proxy/bridge"
	"tidegate/proxy/relay"
	"tidegate/ratelimit"
	"tidegate/session"
)

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

// natsServer runs a NATS server in this process, and returns its URL.
func natsServer(t testing.TB) string {
	t.Helper()
	nats, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	nats.Start()
	t.Cleanup(nats.Shutdown)
	if !nats.ReadyForConnections(await.Patience) {
		t.Fatal("NATS does not start")
	}
	return nats.ClientURL()
}

// gate is a node of a fleet, with a proxy on real sockets.
type gate struct {
	fleetGames
	fleet *fleet.Fleet
	addr  netip.AddrPort
}

// newGate starts a node. All nodes of a test have the same settings.
func newGate(t testing.TB, name, nats string, p codec.Protocol, game netip.AddrPort, loops int,
	change func(*relay.Settings)) *gate {
	t.Helper()
	settings := &relay.Settings{
		Listeners: []relay.Listener{{Name: "play", Addr: loopback, Protocols: []codec.Protocol{p}, Route: &relay.Route{
			Name: "arena", Bridge: crossing.Options{Ordered: policy.OrderedFast, PacketID: 0x86, Queue: 8 << 20},
			Upstream: &relay.Upstream{
				Name: "arena", Protocol: p, Servers: []upstream.Target{{Addr: game}},
				Options: upstream.Options{RetryAfter: time.Second},
			},
		}}},
		Limits:           session.Limits{Sessions: 20_000, HalfOpen: 20_000},
		HandshakeTimeout: 10 * time.Second, IdleTimeout: 30 * time.Second, DrainTimeout: time.Second,
	}
	change(settings)
	s, err := proxy.Listen(settings, proxy.Options{Loops: loops, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	f, stop, err := fleet.Start(fleet.Options{
		Name: "test", Node: name, Servers: []string{nats}, Replicas: 1, Bans: ratelimit.NewBans(ratelimit.Terms{}),
		Games: fleetGames{Server: s}, Players: fleetGames{Server: s}, ReportEvery: 50 * time.Millisecond, Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		stop()
	})
	return &gate{fleetGames{Server: s}, f, s.Addrs()[0]}
}

func (g *gate) sessions(t *testing.T) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
	defer cancel()
	q := &relay.ListSessions{Limit: 1 << 20}
	if err := g.Ask(ctx, q); err != nil {
		t.Fatal(err)
	}
	return len(q.Sessions)
}

// arcade has a game server that echoes, and its players, in one Endpoint.
type arcade struct {
	*endpoint.Endpoint[player]
	t        testing.TB
	protocol codec.Protocol
	mode     codec.Mode
	game     netip.AddrPort
	players  []*endpoint.Conn[player]
	paths    []*udppath.Path
	ended    int           // connections, of players and at the server
	silent   bool          // the players send nothing new
	due      time.Time     // when the next player sends a number
	turn     int           // counts these players
	paused   time.Duration // the longest time between two turns since the last call of wait: a busy machine
}

// player sends numbers, and hears them again.
type player struct {
	up    bool
	sent  []time.Time   // by number; zero: it came back
	back  uint32        // numbers that came back
	last  time.Time     // when the last one did
	gap   time.Duration // the longest time between two
	wait  time.Duration // the longest time of a number, there and back
	wrong int           // numbers that came back twice, or not in order
}

func newArcade(t testing.TB, name string) *arcade {
	t.Helper()
	a := &arcade{t: t, protocol: protocols.Find(name).NewCalm(registry.Use{})}
	for _, mode := range []codec.Mode{codec.Unreliable, codec.UnreliableSequenced, codec.Reliable, codec.ReliableOrdered} {
		if a.protocol.Spec().Modes.Has(mode) {
			a.mode = mode // the strongest one
		}
	}
	var err error
	if a.Endpoint, err = endpoint.New(endpoint.Options[player]{Event: a.event}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	l, err := a.Listen(a.protocol, loopback, endpoint.SocketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a.game = l.Addr()
	return a
}

func (a *arcade) event(c *endpoint.Conn[player], ev *codec.Event) {
	switch ev.Kind {
	case codec.Connected:
		c.Value.up = true
	case codec.Disconnected:
		a.ended++
	case codec.Received:
		if c.Listener != nil {
			_ = c.Send(a.Now(), ev.Message)
			return
		}
		for part := ev.Payload; len(part) >= 5; part = part[5:] { // RUDP joins the messages of a period
			if part[0] != 0x86 {
				return // a forged one: a game of Riptide cannot tell
			}
			c.Value.hear(binary.LittleEndian.Uint32(part[1:]), a.mode == codec.ReliableOrdered)
		}
	}
}

// hear takes a number that came back.
func (v *player) hear(n uint32, ordered bool) {
	if n >= uint32(len(v.sent)) || v.sent[n].IsZero() || ordered && n != v.back {
		v.wrong++
		return
	}
	now := time.Now()
	v.wait = max(v.wait, now.Sub(v.sent[n]))
	v.sent[n] = time.Time{}
	v.back++
	if !v.last.IsZero() {
		v.gap = max(v.gap, now.Sub(v.last))
	}
	v.last = now
}

// join connects players to a proxy, each by a path of its own. They play when all are there.
func (a *arcade) join(n int, at netip.AddrPort) {
	a.t.Helper()
	const atOnce = 100
	a.silent = true
	for ; n > atOnce; n -= atOnce {
		a.joinAtOnce(atOnce, at)
	}
	a.joinAtOnce(n, at)
	a.silent = false
}

func (a *arcade) joinAtOnce(n int, at netip.AddrPort) {
	a.t.Helper()
	for range n {
		path := udppath.New(a.t, at)
		hello := codec.Hello{Identity: uint64(len(a.players) + 1)}
		c, err := a.Dial(a.protocol, path.Addr(), hello, endpoint.SocketOptions{Shared: true})
		if err != nil {
			a.t.Fatal(err)
		}
		a.players, a.paths = append(a.players, c), append(a.paths, path)
	}
	a.until("joined", func() bool {
		for _, c := range a.players {
			if !c.Value.up {
				return false
			}
		}
		return true
	})
}

// Numbers that players send in a second.
const (
	mostOfOne = 50
	mostOfAll = 1000 // two cores carry them, with clients, servers and three nodes
)

// until lets everybody play until a condition holds. The players send in turn, at an even pace.
func (a *arcade) until(what string, done func() bool) {
	a.t.Helper()
	every := time.Second / time.Duration(min(mostOfOne*max(len(a.players), 1), mostOfAll))
	a.due = time.Now()
	last := a.due
	for end := a.due.Add(await.Patience); !done(); {
		now := time.Now()
		a.paused, last = max(a.paused, now.Sub(last)), now
		if now.After(end) {
			a.t.Fatalf("not %s in %v; %d connections have ended", what, await.Patience, a.ended)
		}
		for ; !now.Before(a.due) && len(a.players) > 0; a.due = a.due.Add(every) {
			a.say(a.players[a.turn%len(a.players)])
			a.turn++
		}
		if err := a.Turn(now.Add(time.Millisecond)); err != nil {
			a.t.Fatal(err)
		}
	}
}

func (a *arcade) say(c *endpoint.Conn[player]) {
	if !c.Value.up || a.silent {
		return
	}
	b := binary.LittleEndian.AppendUint32([]byte{0x86}, uint32(len(c.Value.sent)))
	if err := c.Send(a.Now(), codec.Message{Payload: b, Mode: a.mode}); err != nil {
		a.t.Fatal(err)
	}
	c.Value.sent = append(c.Value.sent, time.Now())
	a.Touch(c)
}

// plays lets each player hear n further numbers.
func (a *arcade) plays(n uint32) {
	a.t.Helper()
	var goal []uint32
	for _, c := range a.players {
		goal = append(goal, c.Value.back+n)
	}
	a.until("played", func() bool {
		for i, c := range a.players {
			if c.Value.back < goal[i] {
				return false
			}
		}
		return true
	})
}

// playFor lets everybody play for a time.
func (a *arcade) playFor(d time.Duration) {
	a.t.Helper()
	end := time.Now().Add(d)
	a.until("played", func() bool { return time.Now().After(end) })
}

// gap returns the longest gap since the last call.
func (a *arcade) gap() (longest time.Duration) {
	for _, c := range a.players {
		longest, c.Value.gap = max(longest, c.Value.gap), 0
	}
	return longest
}

// waited is the longest time of a number, there and back, and the longest pause of the players themselves.
type waited struct{ number, pause time.Duration }

func (w waited) String() string {
	return fmt.Sprintf("%v (pause %v)", w.number.Round(time.Millisecond), w.pause.Round(time.Millisecond))
}

// wait returns what the players have waited for since the last call.
func (a *arcade) wait() (longest waited) {
	for _, c := range a.players {
		longest.number, c.Value.wait = max(longest.number, c.Value.wait), 0
	}
	longest.pause, a.paused = a.paused, 0
	return longest
}

// check asserts that no player loses a message or a connection, and returns the longest gap so far.
func (a *arcade) check() (gap time.Duration) {
	a.t.Helper()
	gap = a.gap()
	a.silent = true
	a.until("all numbers back", func() bool {
		for _, c := range a.players {
			want := uint32(len(c.Value.sent))
			if !a.mode.IsReliable() {
				want -= want / 4
			}
			if c.Value.back < want {
				return false
			}
		}
		return true
	})
	a.silent = false
	for i, c := range a.players {
		if c.Value.wrong > 0 && a.mode.IsReliable() {
			a.t.Errorf("player %d has got %d messages twice or not in order", i, c.Value.wrong)
		}
	}
	if a.ended > 0 {
		a.t.Errorf("%d connections have ended", a.ended)
	}
	return gap
}
