//go:build interop

package interop_test

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/sandertv/go-raknet"

	"tidegate/internal/testkit/rtypegame"
)

// relayed is the configuration of a relay.
const relayed = `mode = "relay"`

// plain is a game that Tidegate does not know. A player is in with its first datagram, and is answered by nothing. The
// server echoes numbered messages, and answers queries.
var plain = &kit{name: "a game of its own", protocol: "any", lossy: true, server: plainServer, join: plainPlayers}

const plainQuery = "getinfo"

func plainServer(s *stage, address string) *peer {
	var socket *net.UDPConn
	s.opening(true, func() { socket = bound(address) })
	s.t.Cleanup(func() { _ = socket.Close() })
	p := &peer{name: "plain server", events: make(chan event, 10000)}
	p.events <- event{Event: "listening"}
	var mu sync.Mutex
	var players []netip.AddrPort
	go receive(socket, func(from netip.AddrPort, d []byte) {
		mu.Lock()
		defer mu.Unlock()
		_, numbered := numberOf(hex.EncodeToString(d))
		switch {
		case strings.HasPrefix(string(d), plainQuery):
			_, _ = socket.WriteToUDPAddrPort(d, from) // a lost datagram shows
		case !slices.Contains(players, from):
			players = append(players, from)
			p.events <- event{Event: "joined"}
		case numbered:
			p.events <- event{Event: "received", Payload: head(d)}
			_, _ = socket.WriteToUDPAddrPort(d, from)
		}
	})
	p.do = func(o order) error {
		mu.Lock()
		defer mu.Unlock()
		for i := range o.Count {
			for _, to := range players {
				_, _ = socket.WriteToUDPAddrPort(burstMessage(o, i), to)
			}
		}
		return nil
	}
	return p
}

func plainPlayers(s *stage, first, count int) {
	p := &peer{name: "plain players", events: make(chan event, 10000)}
	var sockets []steady
	p.do = func(o order) error {
		for i := range o.Count {
			_, _ = sockets[o.Player].Write(burstMessage(o, i))
		}
		return nil
	}
	for i := range count {
		var socket steady
		s.opening(false, func() { socket = towards(s.door, 0) })
		s.t.Cleanup(func() { _ = socket.Close() })
		sockets = append(sockets, socket)
		number := uint16(i)
		go receive(socket.UDPConn, func(_ netip.AddrPort, d []byte) {
			p.events <- event{Event: "received", Client: number, Payload: head(d)}
		})
		p.events <- event{Event: "begins", Client: number}
		p.events <- event{Event: "connected", Client: number}
	}
	s.watchPlayers(p, first, count)
	for _, socket := range sockets {
		_, _ = socket.Write([]byte("hello, here is a player"))
	}
}

// receive hands on a socket's datagrams until it is closed.
func receive(socket *net.UDPConn, take func(from netip.AddrPort, d []byte)) {
	roomy(socket)
	for b := make([]byte, 2048); ; {
		n, from, err := socket.ReadFromUDPAddrPort(b)
		if err == nil {
			take(from, slices.Clone(b[:n]))
		} else if isClosed(err) {
			return
		}
	}
}

// stream has the server send some messages in each of some rounds.
func stream(rounds, count int) step {
	return func(s *stage) {
		for range rounds {
			s.say(toAll, order{Count: count, Size: 40})
			s.pass(50 * ms)
		}
	}
}

// query asks the server some times, each time from a new port. An unanswered one is lost.
func query(count int) step {
	return func(s *stage) {
		for range count {
			socket := towards(s.door, 0)
			s.missed++
			for range 3 {
				_, _ = socket.Write([]byte(plainQuery))
				_ = socket.SetReadDeadline(time.Now().Add(50 * ms))
				if _, err := socket.Read(make([]byte, 100)); err == nil {
					s.missed--
					break
				}
			}
			_ = socket.Close()
		}
	}
}

// listed pings the server as its list of servers does, until it is answered.
func listed(s *stage) {
	began := time.Now()
	delete(s.times, "listed")
	for time.Since(began) < s.row.limit {
		if pong, err := raknet.PingTimeout(s.door, time.Second); err == nil && strings.Contains(string(pong), s.at) {
			s.times["listed"] = time.Since(began)
			return
		}
	}
}

// moveServer has a new server take the place of the old one, by a NAT that keeps its old entries.
func moveServer(s *stage) {
	_ = s.server.kill()
	s.at = at(freePort(s.t))
	s.startServer()
	s.leg.lead(portOf(s.t, s.at))
}

// zone is a name server with one name. An answer holds for 10 minutes, as those of Docker do.
type zone struct {
	at   string
	mu   sync.Mutex
	host string
}

func newZone(t *testing.T) *zone {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	z := &zone{at: conn.LocalAddr().String(), host: "127.0.0.1"}
	server := &dns.Server{PacketConn: conn, Handler: z}
	go func() { _ = server.ActivateAndServe() }()
	t.Cleanup(func() { _ = server.Shutdown() })
	return z
}

// ServeDNS implements dns.Handler.
func (z *zone) ServeDNS(w dns.ResponseWriter, question *dns.Msg) {
	z.mu.Lock()
	defer z.mu.Unlock()
	answer := new(dns.Msg).SetReply(question)
	if question.Question[0].Qtype == dns.TypeA {
		if r, err := dns.NewRR(question.Question[0].Name + " 600 IN A " + z.host); err == nil { // a missing one shows
			answer.Answer = append(answer.Answer, r)
		}
	}
	_ = w.WriteMsg(answer)
}

// recreate has a new server take the place of the old one, at another address that has its name.
func recreate(s *stage) {
	_ = s.server.kill()
	const host = "127.0.0.2"
	s.at = net.JoinHostPort(host, portOf(s.t, s.at))
	s.startServer()
	if s.way == direct {
		s.door = s.at // a player looks up the name
		return
	}
	s.zone.mu.Lock()
	defer s.zone.mu.Unlock()
	s.zone.host = host
}

// guests tells how many players the server has seen.
func guests(s *stage) { s.figures["guests"] = float64(s.joined) }

// versions is a RakNet server that only tells the protocol version of the first request that it hears.
var versions = &kit{name: "stock RakNet", protocol: "bedrock",
	server: func(s *stage, address string) *peer {
		socket := bound(address)
		s.t.Cleanup(func() { _ = socket.Close() })
		p := &peer{name: "version server", events: make(chan event, 10000)}
		p.events <- event{Event: "listening"}
		go receive(socket, func(_ netip.AddrPort, d []byte) {
			if len(d) > 17 && d[0] == 5 {
				p.events <- event{Event: "told", Name: fmt.Sprintf("version %d", d[17])}
			}
		})
		return p
	},
	join: stockRakNet.join,
}

// rtype is R-Type's game, made again from its sources. A row's stage is its server's and players'.
func rtypeKit(protocol string) *kit { return &kit{name: "R-Type by " + protocol, protocol: protocol} }

// joinRunning has a player join a game that another one plays. What the second one misses in the end is lost.
func joinRunning(of rtypegame.Stage) step {
	return func(s *stage) {
		server := newRTypeServerAt(s.t, of, s.at)
		first := newRTypePlayer(s.t, of, netip.MustParseAddrPort(s.at))
		server.play(time.Second)
		second := newRTypePlayer(s.t, of, netip.MustParseAddrPort(s.door))
		server.play(5 * time.Second)
		s.pass(300 * ms)
		for _, p := range []*rtypePlayer{first, second} {
			p.mu.Lock()
			if p == second {
				s.figures["datagrams"] = float64(p.datagrams)
			}
			d := rtypegame.Compare(server.world(), server.unmask(p.client.World))
			p.mu.Unlock()
			s.missed += d.Missing + d.Ghosts + d.Components
		}
	}
}

func plainRows() []situation {
	return []situation{
		{name: "a silent player of a server that streams", kit: plain, route: relayed, still: true, mute: true,
			steps: []step{in, stream(20, 20), settle}},
		{name: "a server sends its world of 60 datagrams at once", kit: plain, route: relayed, still: true, mute: true,
			steps: []step{in, stream(1, 60), settle}},
		{name: "300 queries of one address, each from a new port", kit: plain, route: relayed, still: true, mute: true,
			steps: []step{query(300)}},
		{name: "the route is gone for 250 ms", kit: plain, route: relayed, lab: routed,
			steps: []step{in, chat(40), pass(2 * sec), unroute(250 * ms), pass(2 * sec), settle, guests}, limit: sec},
		{name: "the server is recreated at another address of its name, a player comes", kit: goRakNet, still: true,
			discovered: true, limit: 20 * sec, steps: []step{in, pass(sec), killPlayer, recreate, rejoin},
			known: "a refusal counts after a second"},
		{name: "the server moves behind a NAT, its players look at their list", kit: goRakNet, route: `pong = "upstream"`,
			mute: true, limit: 5 * time.Second, steps: []step{listed, moveServer, pass(14 * time.Second), listed}},
		{name: "a player of protocol version 8", kit: versions, still: true, mute: true, clientArgs: []string{"version=8"},
			more: "[raknet]\nversions = [8, 9, 10, 11]\ncookie_mode = \"none\"", steps: []step{in}, limit: 3 * time.Second},
		{name: "a player joins a running game", kit: rtypeKit("rtype"), still: true,
			steps: []step{joinRunning(rtypegame.Final)}},
		{name: "a player joins a running game", kit: rtypeKit("rtype-final"), still: true, ci: true,
			steps: []step{joinRunning(rtypegame.Final)}},
		{name: "a player joins a running game of the second stage", kit: rtypeKit("rtype"), still: true,
			steps: []step{joinRunning(rtypegame.Late)}},
	}
}
