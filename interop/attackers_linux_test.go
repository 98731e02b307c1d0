//go:build interop && linux

package interop_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"tidegate/internal/testkit/await"
	"tidegate/internal/testkit/rakserver"
	"tidegate/internal/testkit/rtypegame"
)

// attackers play against players of each protocol: docs/security/tests.md has their figures.
var attackers = []struct {
	name   string
	rate   float64 // datagrams a second of each of two
	attack func(h *hostile, own string)
	// near attackers have the players' address. What one address may hold is bounded, so newcomers of it may wait.
	near bool
}{
	{"blind", 1000, (*hostile).impersonate, false},
	{"insider", 1000, (*hostile).intrude, false},
	{"slow", 20, (*hostile).dawdle, false},
	{"neighbour", 200, (*hostile).crowd, true},
	{"rogue member", 1000, (*hostile).misreport, false},
	{"local user", 1000, (*hostile).meddle, false},
}

// attackedProtocols are those whose players must stay unhurt, with their listeners. R-Type's has its game beside.
var attackedProtocols = []struct{ name, route string }{
	{"bedrock", udp}, {"riptide-2.2", udp}, {"riptide-2.0", "packets"}, {"enet", udp}, {"rudp", "packets"},
}

// TestAttackers plays each protocol before a go-raknet server with its defaults while others attack. A player of each
// stays, and another comes and goes. No session ends and no message is lost.
func TestAttackers(t *testing.T) {
	for _, a := range attackers {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			s := &siege{t: t, server: blockingGoServer.server(t)}
			go func() {
				for range s.server.events { // the players look at their echoes
				}
			}()
			game := newRTypeServer(t, rtypegame.Late)
			to := route{protocol: "bedrock", transport: udp, server: s.server.port}
			nats := startNATS(t)
			s.between = runTidegate(t, moreListeners(t, to, game.socket.LocalAddr().String())+fmt.Sprintf(`
[fleet]
node = "honest"
servers = [%q]
replicas = 1
follow = true
`, nats), 4)
			go func() {
				for range s.between.journal { // nothing here waits for the log
				}
			}()
			stop := make(chan struct{})
			world := &worldPlayer{server: game}
			world.tend(t, s.between.ports["world"], stop)
			staying, coming := s.startPlayers(stop, 0), s.startPlayers(stop, time.Second)
			for i := range 2 {
				s.attacks.Go(func() {
					h := newHostile(s, rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), uint64(i))))
					h.rest = time.Duration(float64(time.Second) / a.rate)
					defer h.ticks.Stop()
					own := nats
					if a.near {
						own = "127.0.0.1"
					}
					a.attack(h, own)
				})
			}
			<-time.After(attackTime(t))
			world.check(t)
			s.stop.Store(true)
			s.attacks.Wait()
			close(stop)
			world.wait.Wait()
			lost, frames := world.lost()
			t.Logf("%d hostile datagrams; rtype-32: %d of %d frames lost", s.sent.Load(), lost, frames)
			for i, p := range attackedProtocols {
				s.judge(p.name, <-staying[i], <-coming[i], a.near)
			}
		})
	}
}

// startPlayers starts a player of each protocol, and waits until all are in.
func (s *siege) startPlayers(stop <-chan struct{}, stay time.Duration) (all []<-chan *echoPlayer) {
	for _, p := range attackedProtocols {
		all = append(all, (&echoPlayer{protocol: calmCodec(p.name), stay: stay}).play(s.between.ports[p.route], stop))
	}
	return all
}

// judge reports what became of the players of a protocol.
func (s *siege) judge(protocol string, staying, coming *echoPlayer, near bool) {
	s.t.Logf("%s: %d of %d messages lost, %d sessions ended, waited for %v; newcomers: %d in, %d refused, waited for %v",
		protocol, staying.lost, staying.lost+staying.echoed, staying.ended, staying.longest.Round(time.Millisecond),
		coming.joined, coming.refused, coming.longest.Round(time.Millisecond))
	excused := 0
	if protocol == "rudp" {
		excused = 5 + staying.echoed/100 // unreliable, and a session may not survive a busy machine
	}
	bad := staying.lost > excused || staying.ended > excused || staying.echoed == 0
	if attackTime(s.t) >= time.Minute { // a wait says something of a machine that has nothing else to do
		bad = bad || staying.longest > unnoticed || !near && (coming.joined == 0 || coming.longest > unnoticed)
	}
	if bad {
		s.t.Errorf("%s: the players were harmed; deadlock of go-raknet: %q", protocol, rakserver.Stuck())
	}
}

// impersonate forges datagrams of all players but R-Type's, which has no defence.
func (h *hostile) impersonate(string) {
	raw, err := newRawSocket()
	if err != nil {
		h.t.Logf("nothing is forged, which needs root: %v", err)
		return
	}
	h.forge(raw)
}

// newcomer opens an attacker's socket at an address.
func (h *hostile) newcomer(from, listener string) *attacker {
	a, err := newAttacker(h.rng, from, h.between.ports[listener])
	if err != nil {
		h.pause()
		return nil
	}
	return a
}

// doors are the listeners of each protocol: those of hoard.
var doors = []string{udp, udp, udp, udp, "packets", "packets", "world"}

// dawdle joins as slowly as it can: it stops at each step, acknowledges nothing, sends a part of a message or of a
// frame now and then, and keeps all of that.
func (h *hostile) dawdle(string) {
	var held []net.Conn
	defer func() {
		for _, c := range held {
			_ = c.Close()
		}
	}()
	const most = 100 // sockets
	for n := 0; !h.stop.Load(); n++ {
		from := fmt.Sprintf("127.%d.%d.%d", 102+h.rng.IntN(50), h.rng.IntN(200), 1+h.rng.IntN(200))
		switch kind := n % (len(doors) + 2); {
		case len(held) == most || kind > len(doors) && len(held) > 0:
			_, _ = held[h.rng.IntN(len(held))].Write(forgedDatagram(h.rng)) // of a session that is held
		case kind == len(doors):
			if c := hoardStream(h, from); c != nil {
				held = append(held, c)
			}
		case kind < len(doors):
			if a := h.newcomer(from, doors[kind]); a != nil {
				held = append(held, a.conn)
				a.hold(h, kind)
			}
		}
		h.pause()
	}
}

// hold opens a session, or half of one, of any protocol.
func (a *attacker) hold(h *hostile, kind int) {
	switch kind {
	case 1:
		if a.joinRakNet(4) {
			a.misbehaveOnce(h)
		}
	case 5:
		a.joinRiptide20()
	case 6:
		a.hoard(h, 5)
	default:
		a.hoard(h, kind)
	}
}

// misbehaveOnce sends the first part of a large message.
func (a *attacker) misbehaveOnce(h *hostile) {
	a.sendOrdered(append([]byte{packetByte}, make([]byte, h.rng.IntN(1000))...))
}

// joinRiptide20 opens a connection of Riptide 2.0, and keeps it with one heartbeat.
func (a *attacker) joinRiptide20() {
	a.send([]byte{0x03})
	_ = a.conn.SetReadDeadline(time.Now().Add(time.Second))
	if n, err := a.conn.Read(a.buf); err == nil && n > 0 {
		a.send(append([]byte(nil), a.buf[:n]...))
		a.send([]byte{0x05, 0, 0, 0, 0})
	}
}

// crowd takes what one address may have, at the players' own address: half-open handshakes, sessions, memory.
func (h *hostile) crowd(own string) {
	var held []net.Conn
	defer func() {
		for _, c := range held {
			_ = c.Close()
		}
	}()
	const most = 300 // sockets
	for n := 0; !h.stop.Load(); n++ {
		if len(held) == most {
			_ = held[0].Close()
			held = held[1:]
		}
		if a := h.newcomer(own, doors[n%len(doors)]); a != nil {
			held = append(held, a.conn)
			a.hold(h, n%len(doors))
		}
	}
}

// meddle is a user of the same machine without rights. It knows all ports, and sends datagrams of each protocol to all
// sockets of the proxy and to the server, some from the server's port at another address.
func (h *hostile) meddle(string) {
	socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(
		fmt.Sprintf("127.0.%d.%d:%s", 1+h.rng.IntN(200), 1+h.rng.IntN(200), h.server.port))))
	if err != nil {
		h.t.Error(err)
		return
	}
	defer func() { _ = socket.Close() }()
	for !h.stop.Load() {
		to := udpPeers(netipAt(h.server.port).Port())
		for _, port := range h.between.ports {
			to = append(to, netipAt(port))
		}
		for until := time.Now().Add(fresh); !h.stop.Load() && time.Now().Before(until); h.pause() {
			_, _ = socket.WriteToUDPAddrPort(forgedDatagram(h.rng), to[h.rng.IntN(len(to))])
		}
	}
}

// startNATS runs a NATS server with JetStream, and returns its URL.
func startNATS(t *testing.T) string {
	t.Helper()
	s, err := natsd.NewServer(&natsd.Options{
		Host: "127.0.0.1", Port: natsd.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	await.Until(t, "the NATS server listens", func() bool { return s.Addr() != nil })
	return s.ClientURL()
}

// misreport is a member of the fleet. It repeats all that members say, with other bytes and in the names of others, and
// answers all questions with anything.
func (h *hostile) misreport(url string) {
	quiet := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}) // it hears too much
	member, err := nats.Connect(url, quiet)
	if err != nil {
		h.t.Error(err)
		return
	}
	defer member.Close()
	said := make(chan *nats.Msg, 1000)
	if _, err := member.ChanSubscribe("tidegate.>", said); err != nil {
		h.t.Error(err)
		return
	}
	kinds := []string{"counts", "budgets", "players", "player_asks", "strays", "moves"}
	nodes := []string{"honest", "other", "another", ""}
	last := &nats.Msg{}
	for ; !h.stop.Load(); h.pause() {
		select {
		case last = <-said:
		default:
		}
		b := append([]byte(nil), last.Data...)
		if h.rng.IntN(4) == 0 || len(b) == 0 {
			b = make([]byte, h.rng.IntN(2000))
		}
		for range h.rng.IntN(4) {
			if len(b) > 0 {
				b[h.rng.IntN(len(b))] = byte(h.rng.Uint32())
			}
		}
		subject := "tidegate.tidegate." + kinds[h.rng.IntN(len(kinds))] + "." + nodes[h.rng.IntN(len(nodes))]
		if last.Reply != "" && h.rng.IntN(2) == 0 {
			subject = last.Reply
		}
		_ = member.Publish(strings.TrimSuffix(subject, "."), b)
	}
}
