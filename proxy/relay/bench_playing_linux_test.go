package relay

import (
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidegate/codec"
	"tidegate/codec/enet"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
)

const (
	playingTick  = time.Second / 30
	playingBatch = 64 // players whose datagrams a turn takes
)

// playingGame is a game of many players on a Relay without system calls. At each tick each player sends a message,
// and the server sends one to each player.
type playingGame struct {
	*crowdNet
	all     []*playingSeat
	at      map[netip.AddrPort]*playingSeat
	behind  map[netio.Socket]*playingSeat
	message codec.Message
	turn    []playingDatagram // to the Relay
	sent    []playingDatagram // by the Relay
	arrived int               // messages
	passed  int               // datagrams to and from the Relay, or between player and server
	spent   time.Duration     // in the Relay
	took    int               // datagrams to the Relay
	perTurn []float64         // ns for each datagram that a turn took
}

// playingSeat is a player, its connection at the server, and the Relay's socket between them.
type playingSeat struct {
	from           netip.AddrPort
	player, server codec.Conn
	socket         netio.Socket
}

type playingDatagram struct {
	socket netio.Socket
	player netip.AddrPort
	bytes  []byte
}

func newPlayingGame(b *testing.B, p codec.Protocol, m codec.Message, players int) *playingGame {
	own := Transport{Sources: netip.MustParsePrefix("127.64.0.0/10")}
	g := &playingGame{
		crowdNet: newCrowdNet(b, own, policy.ModeTerminate, p), message: m,
		at: make(map[netip.AddrPort]*playingSeat), behind: make(map[netio.Socket]*playingSeat),
	}
	for i, from := range crowd(players) {
		g.players[from] = p.Dial(g.now, listenerAddr, codec.Hello{Identity: uint64(i + 1)})
	}
	for range 100 {
		g.step(20 * time.Millisecond)
	}
	for e := range g.relay.table.All {
		socket := e.Value.socket
		if g.seats[socket] == nil || !e.Value.client.up {
			b.Fatalf("a session is not established: %+v", g.relay.counters)
		}
		s := &playingSeat{e.Key.Client, g.players[e.Key.Client], g.seats[socket], socket}
		g.all, g.at[s.from], g.behind[socket] = append(g.all, s), s, s
	}
	g.relay.sockets.Sockets = g
	return g
}

// Send implements Sockets. The datagrams of a turn arrive after it.
func (g *playingGame) Send(s netio.Socket, to netip.AddrPort, datagram []byte) {
	g.sent = appendDatagram(g.sent, s, to, datagram)
}

func appendDatagram(all []playingDatagram, s netio.Socket, player netip.AddrPort, b []byte) []playingDatagram {
	if len(all) == cap(all) {
		all = append(all, playingDatagram{})[:len(all)]
	}
	all = all[:len(all)+1]
	d := &all[len(all)-1]
	d.socket, d.player, d.bytes = s, player, append(d.bytes[:0], b...)
	return all
}

// tick lets all players send in the course of a tick, and the server at its end.
func (g *playingGame) tick(b *testing.B) {
	rand.Shuffle(len(g.all), func(i, j int) { g.all[i], g.all[j] = g.all[j], g.all[i] })
	step := playingTick / time.Duration(len(g.all)/playingBatch+1)
	for some := range slices.Chunk(g.all, playingBatch) {
		g.now = g.now.Add(step)
		for _, s := range some {
			g.say(b, s.player, g.listener, s.from)
		}
		g.takeTurn()
	}
	for some := range slices.Chunk(g.all, playingBatch) {
		for _, s := range some {
			g.say(b, s.server, s.socket, s.socket.Peer())
		}
		g.takeTurn()
	}
	g.now = g.now.Add(step)
}

// say sends a message from one end of a session to the Relay.
func (g *playingGame) say(b *testing.B, c codec.Conn, s netio.Socket, from netip.AddrPort) {
	c.Advance(g.now)
	if err := c.Send(g.now, g.message); err != nil {
		b.Fatal(err)
	}
	for d, ok := c.Transmit(g.now, g.room()); ok; d, ok = c.Transmit(g.now, g.room()) {
		g.turn = appendDatagram(g.turn, s, from, d)
	}
}

// threadTime returns the processor time of this thread, which other programs' load does not lengthen.
func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}

// takeTurn gives the Relay a turn, and delivers what it sends.
func (g *playingGame) takeTurn() {
	start := threadTime()
	for i := range g.turn {
		d := &g.turn[i]
		if i%16 == 0 { // as a Poller
			for _, next := range g.turn[i:min(i+16, len(g.turn))] {
				g.relay.Foresee(next.socket, next.player)
			}
		}
		g.relay.Receive(g.now, d.socket, d.player, d.bytes)
	}
	g.relay.Advance(g.now)
	g.relay.Flush(g.now)
	spent := threadTime() - start
	g.spent += spent
	g.took += len(g.turn)
	g.perTurn = append(g.perTurn, float64(spent)/float64(len(g.turn)))
	g.passed += len(g.turn) + len(g.sent)
	for i := range g.sent {
		d := &g.sent[i]
		if s := g.behind[d.socket]; s != nil {
			g.hear(s.server, d.bytes)
		} else {
			g.hear(g.at[d.player].player, d.bytes)
		}
	}
	g.turn, g.sent = g.turn[:0], g.sent[:0]
}

func (g *playingGame) hear(c codec.Conn, datagram []byte) {
	_ = c.Receive(g.now, datagram)
	for ev, ok := c.Poll(); ok; ev, ok = c.Poll() {
		switch ev.Kind {
		case codec.Received:
			g.arrived++
		case codec.Asked:
			c.Admit(g.now, 1)
		}
	}
}

// direct plays for a second without the Relay, and returns the datagrams for a message.
func (g *playingGame) direct(b *testing.B) float64 {
	g.all, g.arrived, g.passed = nil, 0, 0
	s := &playingSeat{player: g.servers.Dial(g.now, listenerAddr, codec.Hello{Identity: 1})}
	for range 100 {
		g.now = g.now.Add(playingTick)
		g.exchange(s)
	}
	for g.arrived, g.passed = 0, 0; g.arrived < 60; g.now = g.now.Add(playingTick / 3) {
		for _, c := range [...]codec.Conn{s.player, s.server} {
			if err := c.Send(g.now, g.message); err != nil {
				b.Fatal(err)
			}
			g.exchange(s)
			g.now = g.now.Add(playingTick / 3)
		}
	}
	return float64(g.passed) / float64(g.arrived)
}

// exchange transfers what both ends of a direct connection have to send.
func (g *playingGame) exchange(s *playingSeat) {
	s.player.Advance(g.now)
	for d, ok := s.player.Transmit(g.now, nil); ok; d, ok = s.player.Transmit(g.now, nil) {
		if g.passed++; s.server != nil {
			g.hear(s.server, d)
			continue
		}
		conn, reply, _ := g.servers.Accept(g.now, crowd(1)[0], d, nil)
		if s.server = conn; len(reply) > 0 {
			g.hear(s.player, reply)
		}
	}
	if s.server == nil {
		return
	}
	g.drain(s.server)
	s.server.Advance(g.now)
	for d, ok := s.server.Transmit(g.now, nil); ok; d, ok = s.server.Transmit(g.now, nil) {
		g.passed++
		g.hear(s.player, d)
	}
}

// BenchmarkPlaying measures a Relay with more sessions than the processor's caches hold, and a game of 30 ticks a
// second: its time for a datagram that comes in, and for a message; datagrams for a message, also without the Relay;
// the heap for a session.
func BenchmarkPlaying(b *testing.B) {
	for _, c := range []struct {
		name     string
		protocol codec.Protocol
		message  codec.Message
		players  int
	}{
		{"raknet", raknet6(), codec.Message{Mode: codec.ReliableOrdered}, 4000},
		{"riptide", riptide22(), codec.Message{Mode: codec.Reliable, ID: 7, HasID: true}, 4000},
		{"enet", enet.New(enet.Options{}), codec.Message{Mode: codec.ReliableOrdered}, 1000},
	} {
		b.Run(c.name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			heap := heapInUse()
			c.message.Payload = append([]byte{0x86, 1, 0}, make([]byte, 97)...)
			g := newPlayingGame(b, c.protocol, c.message, c.players)
			for range 30 {
				g.tick(b)
			}
			g.arrived, g.passed, g.took, g.spent, g.perTurn = 0, 0, 0, 0, g.perTurn[:0]
			for b.Loop() {
				g.tick(b)
			}
			slices.Sort(g.perTurn)
			messages := float64(g.arrived)
			b.ReportMetric(float64(g.spent)/messages, "ns/message")
			b.ReportMetric(g.perTurn[len(g.perTurn)/10]*float64(g.took)/messages, "p10-ns/message")
			b.ReportMetric(float64(g.passed)/messages, "datagrams/message")
			b.ReportMetric(g.direct(b), "direct-datagrams/message")
			g.players, g.seats, g.at, g.behind = nil, nil, nil, nil
			b.ReportMetric(float64(heapInUse()-heap)/float64(c.players), "B/session")
			runtime.KeepAlive(g)
		})
	}
}
