package relay

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/rudp"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/upstream"
	"tidegate/session"
)

// places returns a Riptide server's reaction. It gives out client IDs as the library does: from a queue of 1 to n, to
// whose end a freed ID returns.
func places(n uint16) func(now time.Time, p *peer, ev *codec.Event) {
	var free []uint16
	for id := range n {
		free = append(free, id+1)
	}
	given := make(map[*peer]uint16)
	return func(now time.Time, p *peer, ev *codec.Event) {
		switch ev.Kind {
		case codec.Asked:
			if len(free) == 0 {
				p.conn.Close(now, codec.Goodbye{Reason: codec.ServerFull})
				return
			}
			given[p], free = free[0], free[1:]
			p.conn.Admit(now, given[p])
		case codec.Received:
			_ = p.conn.Send(now, ev.Message)
		case codec.Disconnected:
			if id := given[p]; id > 0 {
				free = append(free, id)
			}
		}
	}
}

// outage is a world whose game server fails and returns without its memory, while its players stay.
type outage struct {
	*saga
	players []*player
	ids     []uint16
	refuses bool // the server's host reports a closed port
	talks   func(i int) bool
}

const outagePlaces = 60

func newOutage(t *testing.T, weather simnet.Weather, p codec.Protocol, players int, change func(*Route)) *outage {
	t.Helper()
	route := defaultRoute(p)
	route.Failover = Failover{Hold: 15 * time.Second}
	if change != nil {
		change(route)
	}
	o := &outage{saga: &saga{world: newWorld(t, 1, weather, p, route)}, talks: func(int) bool { return true }}
	o.servers[0].react, o.servers[1].react = places(outagePlaces), places(outagePlaces)
	o.SetTap(func(from, to netip.AddrPort, d []byte) {
		g := o.servers[0]
		switch {
		case to != g.addr:
		case g.down && o.refuses:
			o.After(2*weather.Latency, func() { o.refuse(g, from) })
		case !g.down && isGoodbye(p, d):
			o.After(2*weather.Latency, func() { o.forget(g, from) })
		}
	})
	for range players {
		o.stays(o.connect(codec.Hello{}))
	}
	return o
}

// refuse makes a server's host refuse a datagram from a socket of the proxy, unless the server is back.
func (o *outage) refuse(g *game, from netip.AddrPort) {
	if s := o.proxy.sockets[from]; s != nil && !s.closed && g.down {
		o.proxy.relay.Failed(o.Now(), s, netio.ErrRefused)
	}
}

// forget makes a server forget a client that leaves before it has joined, as the library's servers do.
func (o *outage) forget(g *game, from netip.AddrPort) {
	if p := g.byAddr[from]; p != nil && p.find(codec.Connected) == nil {
		p.conn.Close(o.Now(), codec.Goodbye{Reason: codec.Closed})
	}
}

// stays records a player whose session must survive the outage.
func (o *outage) stays(p *player) {
	o.players, o.ids = append(o.players, p), append(o.ids, p.find(codec.Connected).Client)
}

// pass lets the talking players send a message every 50 ms for a while.
func (o *outage) pass(d time.Duration) {
	for end := o.Now().Add(d); o.Now().Before(end); o.Run(50 * time.Millisecond) {
		for i, p := range o.players {
			if o.talks(i) && !p.gone() {
				m := codec.Message{
					Payload: []byte{0x86, byte(i)}, Mode: o.mode(), ID: 7, HasID: o.clients.Spec().IDs == codec.IDBeside,
				}
				_ = p.conn.Send(o.Now(), m)
			}
		}
	}
}

func (o *outage) mode() codec.Mode {
	if o.clients.Spec().Modes.Has(codec.Reliable) {
		return codec.Reliable
	}
	return codec.Notify
}

// restart brings the server back without its memory.
func (o *outage) restart() {
	o.servers[0].react = places(outagePlaces)
	o.live(0)
}

// regain waits until all players are back at a server, and returns how long that took.
func (o *outage) regain(limit time.Duration) time.Duration {
	begun := o.Now()
	for o.kept() < len(o.players) && o.Now().Sub(begun) < limit {
		o.pass(50 * time.Millisecond)
	}
	took := o.Now().Sub(begun)
	o.t.Logf("%d of %d players are back after %v; the server was asked %d times", o.kept(), len(o.players), took,
		len(o.servers[0].peers))
	return took
}

// kept counts the players whose sessions continue at a server, with the client IDs that they know.
func (o *outage) kept() (n int) {
	relay := o.proxy.relay
	for _, p := range o.players {
		e := relay.table.peek(o.keyOf(p))
		if e != nil && !p.gone() && e.Value.hold == nil && e.Value.upstream.up && !e.Value.life.isEnding() {
			n++
		}
	}
	return n
}

// outageRow is one way to lose a server.
type outageRow struct {
	name    string
	refuses bool
	idle    bool // every third player sends nothing
	gaps    bool // some players have left
	down    time.Duration
	stops   bool // the server stops with goodbyes
}

// TestHoldOverRiptideRestarts asserts that all players keep their places and client IDs over a restart. The server's
// host refuses datagrams or is silent. Paths are lossy, some players send nothing, and some have left.
func TestHoldOverRiptideRestarts(t *testing.T) {
	for _, loss := range []float64{0, 0.05} {
		for _, row := range []outageRow{
			{name: "refused", refuses: true, down: 1500 * time.Millisecond},
			{name: "refused, back at once", refuses: true, down: 300 * time.Millisecond},
			{name: "refused, some idle", refuses: true, idle: true, down: 1500 * time.Millisecond},
			{name: "refused, gaps", refuses: true, gaps: true, down: 1500 * time.Millisecond},
			{name: "silent", down: 1500 * time.Millisecond},
			{name: "silent, some idle", idle: true, down: 8 * time.Second},
			{name: "silent, idle, gaps", idle: true, gaps: true, down: 8 * time.Second},
			{name: "stopped", refuses: true, idle: true, gaps: true, down: 1500 * time.Millisecond, stops: true},
		} {
			t.Run(fmt.Sprintf("%s, loss %.0f%%", row.name, 100*loss), func(t *testing.T) { restartUnder(t, row, loss) })
		}
	}
}

func restartUnder(t *testing.T, row outageRow, loss float64) {
	const players = 20
	weather := simnet.Weather{Latency: 10 * time.Millisecond, Jitter: 5 * time.Millisecond, Loss: loss}
	o := newOutage(t, weather, steady22, 0, nil)
	o.refuses = row.refuses
	var left []*player
	for i := range players {
		if row.gaps && i%4 == 1 {
			left = append(left, o.connect(codec.Hello{}))
		}
		o.stays(o.connect(codec.Hello{}))
	}
	o.Run(time.Second)
	for _, p := range left {
		p.conn.Close(o.Now(), codec.Goodbye{Reason: codec.Closed})
	}
	if row.idle {
		o.talks = func(i int) bool { return i%3 > 0 }
	}
	o.pass(2 * time.Second)
	if row.stops {
		for _, p := range o.servers[0].peers {
			p.conn.Close(o.Now(), codec.Goodbye{Reason: codec.ServerStopped})
		}
		o.Run(time.Millisecond)
	}
	o.die(0)
	o.pass(row.down)
	o.restart()
	if row.refuses && row.down < refusedTime {
		o.pass(doubtTime) // the loss shows only in silence
	}
	o.regain(12 * time.Second)
	if o.pass(2 * time.Second); o.kept() != players {
		t.Errorf("%d of %d players kept their places", o.kept(), players)
	}
	relay := o.proxy.relay
	if len(relay.pools.WithQueues()) > 0 || relay.waiting.inLine != 0 {
		t.Errorf("%d sessions are still in line", relay.waiting.inLine)
	}
	joined := 0 // at the server after its restart
	for _, p := range o.servers[0].peers {
		if p.find(codec.Connected) != nil {
			joined++
		}
	}
	if joined != players {
		t.Errorf("the game saw %d players join, want %d", joined, players)
	}
}

// TestHoldFindsAServerThatIsBack asserts that held sessions find their server within a second. The server returns
// after most of the hold time. The server's rest and the pauses between its checks have grown by then. Questions to
// the lost server stay bounded.
func TestHoldFindsAServerThatIsBack(t *testing.T) {
	const players, down = 12, 11 * time.Second
	newIDs := func(r *Route) { r.Failover.NewIDs = true }
	for _, row := range []struct {
		name     string
		protocol codec.Protocol
		change   func(*Route)
	}{
		{"raknet", raknet6(), func(*Route) {}},
		{"raknet with checks", raknet6(), func(r *Route) {
			r.Upstream.Options.Rise, r.Upstream.Options.Fall = 2, 3
			r.Upstream.Checks = Checks{By: CheckPing, Interval: 2 * time.Second, Timeout: time.Second}
		}},
		{"riptide, any client IDs", steady22, newIDs},
		{"riptide, the same client IDs", steady22, func(*Route) {}},
		{"riptide with checks", steady22, func(r *Route) {
			r.Upstream.Options.Rise, r.Upstream.Options.Fall = 2, 3
			r.Upstream.Checks = Checks{By: CheckJoin, Interval: 2 * time.Second, Timeout: time.Second}
		}},
		{"rudp", rudp.New(rudp.Options{AppID: 7}), func(r *Route) {
			r.Bridge.Reliable,
				r.Bridge.Envelope = policy.ReliableResend, policy.EnvelopeRaw
		}},
	} {
		for _, refuses := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, refused %v", row.name, refuses), func(t *testing.T) {
				o := newOutage(t, simnet.Weather{Latency: 10 * time.Millisecond}, row.protocol, players, row.change)
				o.refuses = refuses
				o.pass(time.Second)
				o.die(0)
				for o.heldSessions() < players {
					o.pass(100 * time.Millisecond)
				}
				dialed := o.proxy.dialed
				o.pass(down)
				if asked := o.proxy.dialed - dialed; asked < 2 || asked > 5*int(down/time.Second) {
					t.Errorf("a lost server was asked %d times in %v", asked, down)
				}
				o.restart()
				if took := o.regain(3 * time.Second); took > time.Second || o.kept() < players {
					t.Errorf("%d of %d players are back after %v", o.kept(), players, took)
				}
				if state := o.state(0); state != upstream.Up {
					t.Errorf("the server is %v", state)
				}
			})
		}
	}
}

// heldSessions returns the number of sessions without a server.
func (o *outage) heldSessions() (n int) {
	for e := range o.proxy.relay.table.All {
		if e.Value.hold != nil {
			n++
		}
	}
	return n
}

// TestHoldFindsAStreamServer asserts that held sessions find a restarted TCP server within a second.
func TestHoldFindsAStreamServer(t *testing.T) {
	w := streamWorld(t, func(r *Route) { r.Failover = Failover{Hold: 15 * time.Second} })
	w.servers[0].react = places(outagePlaces)
	var players []*player
	for range 8 {
		players = append(players, w.connect(codec.Hello{}))
	}
	w.Run(time.Second)
	w.refuseStreams()
	for i := range players {
		w.CloseStream(serverAddr, upstreamSocketAddr(i))
	}
	w.Run(11 * time.Second)
	w.servers[0].down, w.servers[0].react = false, places(outagePlaces)
	w.Run(time.Second)
	for i, p := range players {
		e := w.proxy.relay.table.peek(w.keyOf(p))
		if e == nil || e.Value.hold != nil || e.Value.life.isEnding() {
			t.Errorf("player %d has no server", i)
		}
	}
}

// TestHoldIsBoundedForCrowds asserts that more sessions do not ask a lost server more often.
func TestHoldIsBoundedForCrowds(t *testing.T) {
	const players = 60
	o := newOutage(t, simnet.Weather{Latency: 10 * time.Millisecond}, raknet6(), 0, nil)
	for range players {
		o.stays(o.connect(codec.Hello{}))
	}
	o.pass(time.Second)
	o.refuses = true
	o.die(0)
	o.pass(3 * time.Second)
	if held := o.heldSessions(); held != players {
		t.Fatalf("%d sessions are held", held)
	}
	dialed := o.proxy.dialed
	o.talks = func(int) bool { return false }
	o.pass(4 * time.Second)
	if asked := o.proxy.dialed - dialed; asked > 20 {
		t.Errorf("a lost server was asked %d times in 4 s", asked)
	}
}

// TestNewPlayersWaitForHeldOnes lets a new player join during an outage of a Riptide server. It does not take a held
// player's client ID.
func TestNewPlayersWaitForHeldOnes(t *testing.T) {
	o := newOutage(t, simnet.Weather{Latency: 10 * time.Millisecond}, steady22, 10, nil)
	o.refuses = true
	o.pass(time.Second)
	o.die(0)
	o.pass(2 * time.Second) // 15 resends, as patient as a player's
	late := o.join(codec.Hello{})
	o.pass(time.Second)
	o.restart()
	o.regain(3 * time.Second)
	o.pass(time.Second)
	if o.kept() != len(o.players) || late.find(codec.Connected) == nil {
		t.Errorf("%d of %d players are back; the new one: %+v", o.kept(), len(o.players), late.events)
	}
}

// TestHoldTakesClientIDsBack covers a restarted server that has already given some client IDs to others. Held players
// get all remaining ones.
func TestHoldTakesClientIDsBack(t *testing.T) {
	o := newOutage(t, simnet.Weather{Latency: 10 * time.Millisecond}, steady22, 10, nil)
	o.refuses = true
	o.pass(time.Second)
	o.die(0)
	o.pass(2 * time.Second) // 15 resends, as patient as a player's
	o.restart()
	react := o.servers[0].react
	for range 3 { // other clients take the IDs 1 to 3
		react(o.Now(), &peer{conn: codecStub{}}, &codec.Event{Kind: codec.Asked})
	}
	o.servers[0].react = react
	o.regain(5 * time.Second)
	if o.pass(time.Second); o.kept() != 7 {
		t.Errorf("%d of 10 players are back, want all but those whose client IDs others have", o.kept())
	}
	for i, p := range o.players {
		if taken := o.ids[i] <= 3; p.gone() != taken {
			t.Errorf("player %d: gone = %v", o.ids[i], p.gone())
		}
	}
}

// codecStub is a connection that accepts every call.
type codecStub struct{ codec.Conn }

func (codecStub) Admit(time.Time, uint16) {}

// TestHoldInOrderOverLoops asserts that sessions of one server in two loops ask in the order of their client IDs.
func TestHoldInOrderOverLoops(t *testing.T) {
	const players = 20
	o := newOutage(t, simnet.Weather{Latency: 10 * time.Millisecond, Jitter: 3 * time.Millisecond}, steady22, 0, nil)
	o.refuses = true
	second := o.secondLoop()
	var there []*player
	for i := range players {
		if i%2 == 0 {
			o.stays(o.connect(codec.Hello{}))
			continue
		}
		p := &player{addr: playerAddr(100 + i)}
		p.conn = o.clients.Dial(o.Now(), secondListener, codec.Hello{})
		o.Add(elsewhere{p}, p.addr)
		o.await("connected", 5*time.Second, func() bool { return p.find(codec.Connected) != nil })
		there = append(there, p)
	}
	o.talks = func(i int) bool { return i%3 > 0 } // no player of the second loop talks
	o.pass(2 * time.Second)
	o.die(0)
	o.pass(1500 * time.Millisecond)
	o.restart()
	o.regain(5 * time.Second)
	o.pass(time.Second)
	kept := o.kept()
	for _, p := range there {
		e := second.relay.table.peek(session.Key{Listener: 1, Client: p.addr})
		if e != nil && !p.gone() && e.Value.hold == nil && !e.Value.life.isEnding() {
			kept++
		}
	}
	if kept != players {
		t.Errorf("%d of %d players kept their places", kept, players)
	}
}

var secondListener = netip.AddrPortFrom(listenerAddr.Addr(), listenerAddr.Port()+1)

// secondLoop adds a Relay beside the first one, with another listener and the same upstreams.
func (o *outage) secondLoop() *relayNode {
	first := o.proxy.relay
	first.shard.of = 2
	first.pools.Wake = func(int) { o.After(0, func() {}) } // every node is called then
	settings := *o.settings
	settings.Listeners = slices.Clone(settings.Listeners)
	settings.Listeners[0].Addr = secondListener
	n := &relayNode{
		net: o.Net, sockets: make(map[netip.AddrPort]*simSocket), streams: make(map[streamKey]*simStream),
		buffer: make([]byte, 0, codec.MaxDatagram), dialed: 200,
	}
	options := Options{Shard: 1, Shards: 2, Seed: 2, Log: zerolog.Nop(), Shared: NewShared(time.Time{}, 2)}
	options.Shared.Pools = first.pools
	n.relay = New(&settings, options, n, o.Now())
	listenerSocket := &simSocket{addr: secondListener}
	n.sockets[secondListener] = listenerSocket
	n.relay.Attach(0, listenerSocket)
	addrs := []netip.AddrPort{secondListener}
	for i := range 200 {
		addrs = append(addrs, upstreamSocketAddr(200+i))
	}
	o.Add(n, addrs...)
	return n
}

// elsewhere is a player of the second loop.
type elsewhere struct{ *player }

func (p elsewhere) Transmit(now time.Time, b []byte) ([]byte, netip.AddrPort, netip.AddrPort, bool) {
	b, from, _, ok := p.player.Transmit(now, b)
	return b, from, secondListener, ok
}
