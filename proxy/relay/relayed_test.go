package relay

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/upstream"
	"tidegate/proxy/relay/admission"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
	"tidegate/session"
)

// plainRoute returns a route in ModeRelay to two servers.
func plainRoute(servers codec.Protocol) *Route {
	route := defaultRoute(servers)
	route.Mode = policy.ModeRelay
	route.Upstream.Servers = []upstream.Target{{Addr: serverAddr}, {Addr: secondAddr}}
	return route
}

// plainRelay is a Relay with one listener in ModeRelay, driven by the test.
type plainRelay struct {
	*relayNode
	t        testing.TB
	now      time.Time
	settings *Settings
}

func newPlainRelay(t testing.TB, clients codec.Protocol, change func(*Settings)) *plainRelay {
	t.Helper()
	p := &plainRelay{t: t, now: time.Unix(1_700_000_000, 0), settings: &Settings{
		Listeners: []Listener{{Name: "play", Addr: listenerAddr, Protocols: []codec.Protocol{clients},
			Route: plainRoute(Any)}},
		Limits: session.Limits{Sessions: 100, HalfOpen: 50}, HandshakeTimeout: 10 * time.Second,
		IdleTimeout: 30 * time.Second, DrainTimeout: 3 * time.Second,
	}}
	change(p.settings)
	p.relayNode = &relayNode{sockets: make(map[netip.AddrPort]*simSocket), buffer: make([]byte, 0, codec.MaxDatagram)}
	p.relay = New(p.settings, Options{Seed: 1, Log: zerolog.Nop()}, p.relayNode, p.now)
	p.sockets[listenerAddr] = &simSocket{addr: listenerAddr}
	p.relay.Attach(0, p.sockets[listenerAddr])
	return p
}

func unchanged(*Settings) {}

// pass gives the Relay a datagram. It wants the Relay to send it on unchanged, once, between two addresses.
func (p *plainRelay) pass(sender, at, from, to netip.AddrPort, datagram []byte) {
	p.t.Helper()
	p.out = p.out[:0]
	p.Receive(p.now, sender, at, bytes.Clone(datagram))
	if len(p.out) != 1 {
		p.t.Fatalf("%d datagrams came of one from %v; dropped %v", len(p.out), sender, p.relay.counters.Drops)
	}
	if got := p.out[0]; got.from != from || got.to != to || !bytes.Equal(got.bytes, datagram) {
		p.t.Fatalf("%v sent %x; %v sent %v %x", sender, datagram, got.from, got.to, got.bytes)
	}
}

// swallow gives the Relay a datagram that it must not pass on, and checks that the reason was counted once.
func (p *plainRelay) swallow(sender, at netip.AddrPort, datagram []byte, why stats.Drop) {
	p.t.Helper()
	before := p.relay.counters.Drops[why]
	p.out = p.out[:0]
	p.Receive(p.now, sender, at, datagram)
	if len(p.out) != 0 || p.relay.counters.Drops[why] != before+1 {
		p.t.Fatalf("%d datagrams came of one from %v; want it dropped as %v, counted %v", len(p.out), sender, why,
			p.relay.counters.Drops)
	}
}

// up passes a datagram of player i through its n-th socket to the server. down passes one to the player.
func (p *plainRelay) up(i, n int, server netip.AddrPort, datagram []byte) {
	p.t.Helper()
	p.pass(playerAddr(i), listenerAddr, upstreamSocketAddr(n), server, datagram)
}

func (p *plainRelay) down(i, n int, server netip.AddrPort, datagram []byte) {
	p.t.Helper()
	p.pass(server, upstreamSocketAddr(n), listenerAddr, playerAddr(i), datagram)
}

// meet establishes a session of player i.
func (p *plainRelay) meet(i, n int, server netip.AddrPort) {
	p.t.Helper()
	p.up(i, n, server, []byte("hello"))
	p.down(i, n, server, []byte("hello yourself"))
	p.up(i, n, server, []byte("play"))
}

func (p *plainRelay) wait(d time.Duration) {
	p.now = p.now.Add(d)
	p.relay.Advance(p.now)
	p.relay.Flush(p.now)
}

// TestRelayedSessions plays RakNet through a route in ModeRelay. The players' connections end at the server.
func TestRelayedSessions(t *testing.T) {
	route := plainRoute(raknet6())
	w := newWorld(t, 1, simnet.Weather{Latency: 20 * time.Millisecond}, raknet6(), route)
	first, second := w.connect(codec.Hello{Identity: 4711}), w.connect(codec.Hello{})
	for _, p := range []*player{first, second} {
		w.send(&p.peer, codec.Message{Payload: []byte{0x90, 1, 2}, Mode: codec.ReliableOrdered, Channel: 3})
		w.await("echoed", time.Second, func() bool { return len(p.received()) == 1 })
		if got := p.received()[0]; !bytes.Equal(got.Payload, []byte{0x90, 1, 2}) || got.Channel != 3 {
			t.Errorf("came back as %+v", got)
		}
	}
	if asked := w.servers[0].peers[0].find(codec.Asked); asked.Identity != 4711 {
		t.Errorf("the server was told of identity %d, want the client's own", asked.Identity)
	}
	if len(w.servers[1].peers) != 1 {
		t.Errorf("the second server has %d players, want one", len(w.servers[1].peers))
	}
	snapshot := w.proxy.relay.Snapshot(w.Now())
	if len(snapshot.Sessions) != 2 {
		t.Fatalf("%d sessions, want 2", len(snapshot.Sessions))
	}
	s := snapshot.Sessions[0]
	if !s.Relayed || !s.Established || s.Server != serverAddr || s.ClientProtocol != "raknet" ||
		s.FromClient.Messages < 4 || s.FromUpstream.Messages < 3 {
		t.Errorf("session %+v", s)
	}
	c := &snapshot.Counters
	if c.Opened != 2 || c.Established != 2 || c.FromClients.Messages != 0 ||
		c.RelayedUp.Messages != s.FromClient.Messages+snapshot.Sessions[1].FromClient.Messages {
		t.Errorf("counters %+v", c)
	}
	first.conn.Close(w.Now(), codec.Goodbye{Reason: codec.Closed})
	w.await("told", time.Second, w.servers[0].peers[0].gone)
}

func TestRelayedNewcomersAreLookedAt(t *testing.T) {
	p := newPlainRelay(t, riptide22(), unchanged)
	p.swallow(playerAddr(0), listenerAddr, []byte("GET / HTTP/1.1"), stats.DropUnknownProtocol)
	p.swallow(playerAddr(0), listenerAddr, nil, stats.DropEmpty)
	if p.dialed != 0 || p.relay.table.Len() != 0 {
		t.Fatalf("%d sockets, %d sessions for a stranger", p.dialed, p.relay.table.Len())
	}
	p.up(0, 0, serverAddr, []byte{2})
	p.up(0, 0, serverAddr, []byte("GET / HTTP/1.1")) // later ones concern only the server
	p.swallow(serverAddr, upstreamSocketAddr(0), nil, stats.DropEmpty)
}

// TestAnyProtocolIsRelayed asserts that any first datagram opens a session, and that each client keeps its server.
func TestAnyProtocolIsRelayed(t *testing.T) {
	p := newPlainRelay(t, Any, unchanged)
	for i, server := range []netip.AddrPort{serverAddr, secondAddr} {
		for n := range 3 {
			p.up(i, i, server, []byte{0xff, byte(n)})
			p.down(i, i, server, []byte{0xfe, byte(n)})
		}
	}
	if _, _, err := Any.Accept(p.now, playerAddr(0), []byte{1}, nil); err == nil || Any.Spec().Modes != 0 {
		t.Errorf("an unknown protocol is terminated: %v, modes %v", err, Any.Spec().Modes)
	}
}

// TestRelayedSessionsAreBounded asserts that new clients must ask twice once half of the half-open places are taken.
// When all are taken, the oldest makes room. Established sessions stay.
func TestRelayedSessionsAreBounded(t *testing.T) {
	p := newPlainRelay(t, Any, func(s *Settings) { s.Limits = session.Limits{Sessions: 4, HalfOpen: 4} })
	servers := []netip.AddrPort{serverAddr, secondAddr, serverAddr, secondAddr, serverAddr}
	for i, server := range servers {
		if i >= 2 {
			p.swallow(playerAddr(i), listenerAddr, []byte("first"), stats.DropAskAgain)
		}
		p.up(i, i, server, []byte("again"))
	}
	if p.relay.table.Len() != 4 || p.relay.counters.Evicted != 1 {
		t.Fatalf("%d sessions, %d evicted", p.relay.table.Len(), p.relay.counters.Evicted)
	}
	for i, server := range servers[1:] {
		p.down(i+1, i+1, server, []byte("x"))
		p.up(i+1, i+1, server, []byte("y"))
	}
	p.swallow(playerAddr(5), listenerAddr, []byte("e"), stats.DropTableFull)
}

// TestRefusalsWhereTheProtocolHasThem asserts that RakNet and Riptide clients get a refusal if there is no place.
func TestRefusalsWhereTheProtocolHasThem(t *testing.T) {
	p := newPlainRelay(t, riptide22(), func(s *Settings) { s.Limits.Sessions = 1 })
	p.up(0, 0, serverAddr, []byte{2})
	p.down(0, 0, serverAddr, []byte{0x0a})
	p.up(0, 0, serverAddr, []byte{0x0a})
	want := riptide22().Refuse([]byte{2}, nil, codec.ServerFull)
	p.answers(playerAddr(1), []byte{2}, want)
	p.relay.Drain(p.now)
	p.answers(playerAddr(2), []byte{2}, riptide22().Refuse([]byte{2}, nil, codec.ServerStopped))
}

// answers gives the Relay a new client's datagram and wants an answer.
func (p *plainRelay) answers(client netip.AddrPort, datagram, answer []byte) {
	p.t.Helper()
	p.out = p.out[:0]
	p.Receive(p.now, client, listenerAddr, datagram)
	if len(p.out) != 1 || p.out[0].to != client || !bytes.Equal(p.out[0].bytes, answer) {
		p.t.Fatalf("came %+v, want the answer %x", p.out, answer)
	}
}

func TestSilenceEndsRelayedSessions(t *testing.T) {
	p := newPlainRelay(t, Any, unchanged)
	p.up(0, 0, serverAddr, []byte("nobody answers this"))
	p.meet(1, 1, secondAddr)
	p.wait(9999 * time.Millisecond)
	if p.relay.table.Len() != 2 {
		t.Fatal("a session was given up too early")
	}
	p.wait(2 * time.Millisecond)
	if p.relay.table.Len() != 1 || !p.sockets[upstreamSocketAddr(0)].closed ||
		p.relay.counters.Drops[stats.DropUnanswered] != 1 {
		t.Fatal("a session whose server never answered is kept, or not counted")
	}
	for range 10 {
		p.up(1, 1, secondAddr, []byte("still here"))
		p.wait(29 * time.Second)
	}
	p.up(1, 1, secondAddr, []byte("still here"))
	p.down(1, 1, secondAddr, []byte("server"))
	p.wait(29 * time.Second)
	p.down(1, 1, secondAddr, []byte("only the client's silence counts"))
	p.wait(1100 * time.Millisecond)
	if p.relay.table.Len() != 0 || !p.sockets[upstreamSocketAddr(1)].closed || p.relay.counters.Closed != 2 {
		t.Fatal("a silent session is kept")
	}
	if !p.relay.NextTimeout().IsZero() {
		t.Error("an empty Relay wants to be woken")
	}
}

// TestAnswersToForgedAddressesAreBounded covers a client that has not shown that it hears answers. Answers may be
// three times as large as its datagrams. The allowance of clients without proof bounds the rest.
func TestAnswersToForgedAddressesAreBounded(t *testing.T) {
	p := newPlainRelay(t, Any, func(s *Settings) {
		s.Unproved = admission.Unproved{Session: 2100, Network: 4096, Overall: 8192}
	})
	p.up(0, 0, serverAddr, make([]byte, 100))
	p.down(0, 0, serverAddr, make([]byte, 300))
	p.down(0, 0, serverAddr, make([]byte, 1000))
	p.down(0, 0, serverAddr, make([]byte, 1000))
	p.swallow(serverAddr, upstreamSocketAddr(0), make([]byte, 1000), stats.DropUnproved)
	p.up(0, 0, serverAddr, []byte("heard you"))
	for range 10 {
		p.down(0, 0, serverAddr, make([]byte, 1000))
	}
}

// TestSilentClientsAreTold gives clients that speak once a game of 500 datagrams a second, and one a snapshot at once.
// Without a proxy nothing of it is missing, and they play on as long as they are silent.
func TestSilentClientsAreTold(t *testing.T) {
	p := newPlainRelay(t, Any, func(s *Settings) {
		s.Unproved = admission.Unproved{Session: 512 << 10, Network: 4 << 20, Overall: 32 << 20}
	})
	p.up(0, 0, serverAddr, []byte("start"))
	for range 25 * 500 {
		p.now = p.now.Add(2 * time.Millisecond)
		p.down(0, 0, serverAddr, make([]byte, 200))
		p.relay.Advance(p.now)
	}
	p.wait(6 * time.Second)
	if n := p.relay.table.Len(); n != 0 {
		t.Error("a client that was silent for the idle timeout is kept")
	}
	p.up(1, 1, serverAddr, make([]byte, 23))
	for range 60 {
		p.down(1, 1, serverAddr, make([]byte, 60))
	}
}

// TestIdleTimeoutOfAListener gives a listener more patience than the settings have.
func TestIdleTimeoutOfAListener(t *testing.T) {
	for own, want := range map[time.Duration]int{0: 0, time.Minute: 1} {
		p := newPlainRelay(t, Any, func(s *Settings) { s.Listeners[0].IdleTimeout = own })
		p.up(0, 0, serverAddr, []byte("start"))
		p.down(0, 0, serverAddr, []byte("answer"))
		p.up(0, 0, serverAddr, []byte("thanks"))
		p.wait(30 * time.Second)
		if n := p.relay.table.Len(); n != want {
			t.Errorf("idle_timeout %v: %d sessions after 30 s of silence, want %d", own, n, want)
		}
	}
}

// TestAnsweredQuestionsMakeRoom asks 300 questions of one address, each from another port. Each is answered.
func TestAnsweredQuestionsMakeRoom(t *testing.T) {
	p := newPlainRelay(t, Any, func(s *Settings) {
		s.Limits = session.Limits{Sessions: 100, HalfOpen: 90, HalfOpenAddress: 32, Address: 64}
		s.Listeners[0].Route.Upstream.Servers = []upstream.Target{{Addr: serverAddr}}
	})
	for i := range 300 {
		from := netip.AddrPortFrom(playerAddr(1).Addr(), uint16(10000+i))
		p.pass(from, listenerAddr, upstreamSocketAddr(i), serverAddr, []byte("getinfo"))
		p.pass(serverAddr, upstreamSocketAddr(i), listenerAddr, from, []byte("infoResponse"))
	}
	if n := p.relay.table.HalfOpen(); n != 32 {
		t.Errorf("%d sessions are half-open, want 32", n)
	}
	for i := range 32 { // without answers the bound holds
		p.Receive(p.now, netip.AddrPortFrom(playerAddr(1).Addr(), uint16(20000+i)), listenerAddr, []byte("getinfo"))
	}
	p.swallow(netip.AddrPortFrom(playerAddr(1).Addr(), 30000), listenerAddr, []byte("getinfo"), stats.DropHalfOpenSource)
}

func TestRefusedRelayedSessions(t *testing.T) {
	p := newPlainRelay(t, Any, unchanged)
	p.up(0, 0, serverAddr, []byte("anyone?"))
	p.relay.Failed(p.now, p.sockets[upstreamSocketAddr(0)], netio.ErrRefused)
	if !p.sockets[upstreamSocketAddr(0)].closed {
		t.Error("the socket towards the server that refused is open")
	}
	p.up(0, 1, secondAddr, []byte("anyone?"))
	p.down(0, 1, secondAddr, []byte("me"))
	p.up(0, 1, secondAddr, []byte("good"))
	p.meet(1, 2, secondAddr) // the first server rests

	socket := p.sockets[upstreamSocketAddr(1)]
	for range refusals - 1 {
		p.relay.Failed(p.now, socket, netio.ErrRefused)
	}
	p.down(0, 1, secondAddr, []byte("still alive"))
	for range 3 * refusals {
		p.relay.Failed(p.now, socket, netio.ErrRefused)
	}
	p.wait(refusedTime)
	for range 3 * refusals {
		p.relay.Failed(p.now, socket, netio.ErrUnreachable)
	}
	if p.relay.table.Len() != 2 {
		t.Fatal("refusals with life between, refusals of a moment or a missing route ended a session")
	}
	p.relay.Failed(p.now, socket, netio.ErrRefused)
	if p.relay.table.Len() != 1 || !socket.closed {
		t.Fatal("a session whose server is gone is kept")
	}
}

func TestRelayedSessionWithoutServer(t *testing.T) {
	p := newPlainRelay(t, Any, unchanged)
	p.up(0, 0, serverAddr, []byte("a"))
	p.relay.Failed(p.now, p.sockets[upstreamSocketAddr(0)], netio.ErrRefused)
	p.relay.Failed(p.now, p.sockets[upstreamSocketAddr(1)], netio.ErrRefused)
	if p.relay.table.Len() != 0 {
		t.Fatal("a session that no server wants is kept")
	}
	p.Receive(p.now, playerAddr(1), listenerAddr, []byte("b")) // both rest: each is asked again
	p.relay.Failed(p.now, p.sockets[upstreamSocketAddr(2)], netio.ErrRefused)
	p.relay.Failed(p.now, p.sockets[upstreamSocketAddr(3)], netio.ErrRefused)
	if p.sockets[upstreamSocketAddr(2)].peer != serverAddr || p.sockets[upstreamSocketAddr(3)].peer != secondAddr {
		t.Error("the servers were not asked in turn")
	}
	p.wait(6 * time.Second)
	p.noDial = errors.New("too many open files")
	p.swallow(playerAddr(2), listenerAddr, []byte("c"), stats.DropSocket)
	if n := p.relay.table.Len(); n != 0 || p.relay.counters.Opened != p.relay.counters.Closed {
		t.Errorf("%d sessions, %+v", n, p.relay.counters)
	}
	for _, s := range p.relay.listeners[0].route.pool.Status(p.now) {
		if s.Sessions != 0 {
			t.Errorf("%v has %d sessions that are not there", s.Addr, s.Sessions)
		}
	}
}

func TestDrainEndsRelayedSessions(t *testing.T) {
	p := newPlainRelay(t, Any, unchanged)
	p.meet(0, 0, serverAddr)
	p.up(1, 1, secondAddr, []byte("a"))
	p.relay.Drain(p.now)
	if !p.relay.Drained() || p.relay.counters.Closed != 2 {
		t.Errorf("not drained: %+v", p.relay.counters)
	}
}

// TestReloadOfTheMode asserts that a session keeps its mode if its listener's route changes.
func TestReloadOfTheMode(t *testing.T) {
	route := plainRoute(riptide22())
	w := newWorld(t, 1, simnet.Weather{Latency: 20 * time.Millisecond}, riptide22(), route)
	relayed := w.connect(codec.Hello{})
	w.reload(func(s *Settings) {
		ended := *route
		ended.Mode = policy.ModeTerminate
		s.Listeners[0].Route = &ended
	})
	terminated := w.connect(codec.Hello{})
	w.echoes(relayed, "as before")
	w.echoes(terminated, "anew")
	w.reload(func(s *Settings) { s.Listeners[0].Route = route })
	w.echoes(relayed, "as before")
	w.echoes(terminated, "as before")
	count := make(map[bool]int)
	for e := range w.proxy.relay.table.All {
		count[e.Value.isRelayed()]++
	}
	if count[true] != 1 || count[false] != 1 {
		t.Errorf("%d relayed and %d terminated sessions, want one each", count[true], count[false])
	}
}

func TestBansHoldForRelayedSessions(t *testing.T) {
	p := newPlainRelay(t, Any, unchanged)
	p.meet(0, 0, serverAddr)
	p.meet(1, 1, secondAddr)
	p.relay.guard.Bans.Add(ratelimit.Ban{Prefix: netip.PrefixFrom(playerAddr(0).Addr(), 32)})
	p.relay.EnforceBans(p.now)
	if p.relay.table.Len() != 1 || !p.sockets[upstreamSocketAddr(0)].closed {
		t.Error("the banned player's session is kept, or another's is not")
	}
	p.swallow(playerAddr(0), listenerAddr, []byte("me again"), stats.DropBanned)
}

// TestRelayedSessionsHaveLimits asserts that limits only drop in ModeRelay, because any datagram may be forged.
func TestRelayedSessionsHaveLimits(t *testing.T) {
	for _, verdict := range []ratelimit.Verdict{ratelimit.Drop, ratelimit.Disconnect, ratelimit.BanSource} {
		p := newPlainRelay(t, Any, func(s *Settings) {
			s.Bounds = []ratelimit.Limit{limit(ratelimit.Packets, ratelimit.PerSession, 1, 3, verdict)}
		})
		p.meet(0, 0, serverAddr) // the first datagram counted as a stranger's
		p.up(0, 0, serverAddr, []byte("2"))
		p.up(0, 0, serverAddr, []byte("3"))
		p.swallow(playerAddr(0), listenerAddr, []byte("4"), stats.DropRate)
		if p.relay.table.Len() != 1 || len(p.relay.guard.Bans.All()) > 0 {
			t.Errorf("%v: %d sessions, bans %v", verdict, p.relay.table.Len(), p.relay.guard.Bans.All())
		}
	}
}
