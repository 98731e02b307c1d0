package relay

import (
	"encoding/binary"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/codec/rtype"
	"tidegate/internal/policy"
	"tidegate/internal/testkit/heavy"
	"tidegate/proxy/relay/admission"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
	"tidegate/session"
)

// guarded makes a world with limits.
func guarded(t testing.TB, clients, upstreams codec.Protocol, bounds ...ratelimit.Limit) *world {
	return newWorldWith(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, clients, defaultRoute(upstreams),
		func(s *Settings) {
			s.Bounds = bounds
		})
}

func limit(of ratelimit.Quantity, per ratelimit.Scope, rate, burst int, v ratelimit.Verdict) ratelimit.Limit {
	return ratelimit.Limit{Of: of, Per: per, Rate: ratelimit.Rate{PerSecond: rate, Burst: burst}, Verdict: v}
}

func (w *world) breaches(of ratelimit.Quantity, per ratelimit.Scope) stats.Breaches {
	return w.proxy.relay.counters.Limits[of][per]
}

// strangerAddr returns the i-th of many addresses. No two of them are in the same /24.
func strangerAddr(i int) netip.AddrPort {
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], 30<<24+uint32(i)<<8)
	return netip.AddrPortFrom(netip.AddrFrom4(ip), uint16(1024+i%50_000))
}

// TestOneAddressCannotLockOthersOut sends a thousand Connects of one byte from one address, with forged ports. They
// take only the places of that address, and a player joins at once.
func TestOneAddressCannotLockOthersOut(t *testing.T) {
	w := newWorldWith(t, 1, simnet.Weather{Latency: 5 * time.Millisecond}, riptide22(), defaultRoute(riptide22()),
		func(s *Settings) {
			s.Limits = session.Limits{Sessions: 1000, HalfOpen: 100, HalfOpenAddress: 8, HalfOpenNetwork: 16}
		})
	for i := range 1100 {
		w.Inject(0, netip.AddrPortFrom(netip.MustParseAddr("198.51.100.7"), uint16(2000+i)), listenerAddr, []byte{2})
	}
	w.Run(50 * time.Millisecond)
	if n := w.proxy.relay.table.HalfOpen(); n != 8 {
		t.Errorf("%d half-open sessions of one address, want 8", n)
	}
	begin := w.Now()
	w.connect(codec.Hello{})
	if took := w.Now().Sub(begin); took > 500*time.Millisecond {
		t.Errorf("a player got in after %v", took)
	}
	if w.drops(stats.DropHalfOpenSource) == 0 {
		t.Error("nothing was counted")
	}
}

// TestPlayersGetInDuringAFloodOfForgedHandshakes sends 2,000 forged Connects a second, from as many networks. Every
// client that repeats its question joins. No established session ends. Few Connects reach the game server.
func TestPlayersGetInDuringAFloodOfForgedHandshakes(t *testing.T) {
	w := newWorldWith(t, 1, simnet.Weather{Latency: 20 * time.Millisecond}, riptide22(), defaultRoute(riptide22()),
		func(s *Settings) {
			s.Limits = session.Limits{Sessions: 1000, HalfOpen: 50}
			s.Bounds = []ratelimit.Limit{limit(ratelimit.Handshakes, ratelimit.Overall, 100, 200, ratelimit.Drop)}
		})
	old := w.connect(codec.Hello{})
	n := 0
	var flood func()
	flood = func() {
		for range 20 {
			w.Inject(0, strangerAddr(n), listenerAddr, []byte{2})
			n++
		}
		w.After(10*time.Millisecond, flood)
	}
	flood()
	w.Run(3 * time.Second)
	for range 5 {
		begin := w.Now()
		w.connect(codec.Hello{})
		if took := w.Now().Sub(begin); took > 2500*time.Millisecond {
			t.Errorf("a player got in after %v, want one repetition or two", took)
		}
	}
	w.stillPlays(old, codec.Message{Payload: []byte("x"), Mode: codec.Reliable, ID: 1, HasID: true})
	if got := w.proxy.relay.table.HalfOpen(); got > 50 {
		t.Errorf("%d half-open", got)
	}
	if got := w.drops(stats.DropAskAgain); got < uint64(n)*8/10 {
		t.Errorf("%d of %d forged Connects had to ask again", got, n)
	}
	if asked := len(w.servers[0].peers); asked > 700 {
		t.Errorf("the game server was asked %d times in %v", asked, w.Elapsed())
	}
}

// TestProofFirstHoldsForEveryProtocolWithProof asserts that a server hears nothing of a client with a forged address.
// It does hear of a client that answers.
func TestProofFirstHoldsForEveryProtocolWithProof(t *testing.T) {
	for _, p := range udpMembers(nil) {
		if p.Spec().Proof == codec.NoProof || p.Spec().Proof == codec.ProvedEcho { // this proof comes later
			continue
		}
		route := matrixRoute(p, p)
		route.Admit = policy.ProofFirst
		w := newWorld(t, 1, simnet.Weather{Latency: 10 * time.Millisecond}, p, route)
		deaf := w.join(codec.Hello{})
		w.SetPath(listenerAddr, deaf.addr, simnet.Weather{Loss: 1})
		w.Run(3 * time.Second)
		if w.proxy.dialed > 0 {
			t.Errorf("%s: the server was asked before there was proof", p.Spec().Name)
		}
		w.connect(codec.Hello{})
		w.Run(time.Second)
		if w.proxy.dialed != 1 {
			t.Errorf("%s: dialled %d times after the proof", p.Spec().Name, w.proxy.dialed)
		}
	}
}

// TestEvictionSparesWhoHasProvedItsAddress asserts that forged Riptide sessions make room. A RakNet player that waits
// for a slow server keeps its session.
func TestEvictionSparesWhoHasProvedItsAddress(t *testing.T) {
	route := defaultRoute(raknet6())
	w := newWorldWith(t, 1, simnet.Weather{Latency: time.Millisecond}, raknet6(), route, func(s *Settings) {
		s.Limits = session.Limits{Sessions: 100, HalfOpen: 4}
		s.Listeners[0].Protocols = []codec.Protocol{raknet6(), riptide22()}
	})
	w.servers[0].react = nil // the server never answers the question
	waiting := w.join(codec.Hello{})
	w.Run(time.Second)
	const forged = 22
	for i := range forged {
		for range 2 {
			w.Inject(0, strangerAddr(i), listenerAddr, []byte{2})
			w.Run(time.Millisecond)
		}
		w.Run(youth/3 + time.Millisecond)
	}
	relay := w.proxy.relay
	if relay.table.peek(w.keyOf(waiting)) == nil || relay.table.HalfOpen() != 4 || relay.counters.Evicted < forged-4 {
		t.Errorf("the player waits: %v; %d half-open, %d evicted", relay.table.peek(w.keyOf(waiting)) != nil,
			relay.table.HalfOpen(), relay.counters.Evicted)
	}
	open := 0
	for _, s := range w.proxy.sockets {
		if !s.closed && s.peer.IsValid() {
			open++
		}
	}
	if open > 4 {
		t.Errorf("%d sockets towards the server are open", open)
	}
}

// TestTenMillionSources asserts that no table grows any more after the first sources.
func TestTenMillionSources(t *testing.T) {
	sources := 10_000_000
	if !heavy.Runs() {
		sources = 300_000
	}
	w := newWorldWith(t, 1, simnet.Weather{}, riptide22(), defaultRoute(riptide22()), func(s *Settings) {
		s.Limits = session.Limits{Sessions: 1000, HalfOpen: 100, HalfOpenAddress: 8, HalfOpenNetwork: 16}
		s.Bounds = []ratelimit.Limit{
			limit(ratelimit.Handshakes, ratelimit.PerAddress, 10, 40, ratelimit.Drop),
			limit(ratelimit.Handshakes, ratelimit.PerNetwork, 100, 400, ratelimit.Drop),
			limit(ratelimit.Handshakes, ratelimit.Overall, 1000, 4000, ratelimit.Drop),
			limit(ratelimit.Packets, ratelimit.PerAddress, 1000, 1000, ratelimit.Drop),
		}
		s.Listeners[0].Protocols = []codec.Protocol{raknet6(), riptide22()}
	})
	relay, listenerSocket, now := w.proxy.relay, w.proxy.sockets[listenerAddr], w.Now()
	garbage := []byte("\xffgarbage")
	give := func(from, to int) {
		for i := from; i < to; i++ {
			var ip [16]byte
			binary.BigEndian.PutUint64(ip[:], 0x2001_0db8_0000_0000+uint64(i)*0x9e3779b1)
			source := netip.AddrPortFrom(netip.AddrFrom16(ip), uint16(1+i%65_000))
			datagram := garbage
			if i%2 == 0 {
				datagram = []byte{2}
			}
			relay.Receive(now, listenerSocket, source, datagram)
			if i%64 == 0 {
				now = now.Add(50 * time.Microsecond)
				relay.Advance(now)
				relay.Flush(now)
				w.proxy.out = w.proxy.out[:0]
			}
			if len(w.proxy.sockets) > 1000 {
				w.forgetClosed()
			}
		}
	}
	give(0, sources/10)
	before := heap()
	give(sources/10, sources)
	const most = 4 << 20
	if after := heap(); after > before+most {
		t.Errorf("%d sources more took %d bytes", sources, after-before)
	}
	if n := relay.table.Len(); n > 100 {
		t.Errorf("%d sessions are open", n)
	}
}

// forgetClosed keeps the simulation's own memory out of the measurement.
func (w *world) forgetClosed() {
	for addr, s := range w.proxy.sockets {
		if s.closed {
			delete(w.proxy.sockets, addr)
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestVerdicts checks the fate of a player that sends 50 messages at once with a limit of ten datagrams.
func TestVerdicts(t *testing.T) {
	for _, c := range []struct {
		verdict          ratelimit.Verdict
		gone, banned     bool
		fewest, most     int
		enforced, notice bool
	}{
		{verdict: ratelimit.Observe, fewest: 50, most: 50, notice: true},
		{verdict: ratelimit.Drop, fewest: 5, most: 30, enforced: true},
		{verdict: ratelimit.Disconnect, gone: true, most: 30, enforced: true},
		{verdict: ratelimit.BanSource, gone: true, banned: true, most: 30, enforced: true},
	} {
		w := guarded(t, riptide22(), raknet6(), limit(ratelimit.Packets, ratelimit.PerSession, 5, 10, c.verdict))
		p := w.connect(codec.Hello{})
		for i := range 50 {
			w.send(&p.peer, codec.Message{Payload: []byte{byte(i)}, Mode: codec.Unreliable, ID: 1, HasID: true})
		}
		w.Run(time.Second)
		got := 0
		if len(w.servers[0].peers) > 0 {
			got = len((&player{peer: *w.servers[0].peers[0]}).received())
		}
		b := w.breaches(ratelimit.Packets, ratelimit.PerSession)
		banned := w.bans().Find(w.Now(), p.addr.Addr()) != nil
		if p.gone() != c.gone || banned != c.banned || got < c.fewest || got > c.most ||
			(b.Enforced > 0) != c.enforced || (b.Observed > 0) != c.notice {
			t.Errorf("%v: gone %v, banned %v, %d of 50 came, %+v", c.verdict, p.gone(), banned, got, b)
		}
	}
}

// TestForgedDatagramsBanNobody sends garbage from a player's address, beyond all limits. It neither bans nor
// disconnects the player. A session that was never established, or whose protocol has no proof, causes no ban either.
func TestForgedDatagramsBanNobody(t *testing.T) {
	bounds := []ratelimit.Limit{
		limit(ratelimit.Packets, ratelimit.PerSession, 100, 100, ratelimit.BanSource),
		limit(ratelimit.Bytes, ratelimit.PerAddress, 10_000, 10_000, ratelimit.BanSource),
	}
	for _, clients := range []codec.Protocol{riptide22(), raknet6()} {
		w := guarded(t, clients, raknet6(), bounds...)
		p := w.connect(codec.Hello{})
		w.Run(100 * time.Millisecond)
		for i := range 5000 {
			// From the player's port, from other ports, and without a protocol.
			w.Inject(0, p.addr, listenerAddr, []byte{0x0d, byte(i), 0xff})
			w.Inject(0, netip.AddrPortFrom(p.addr.Addr(), uint16(6000+i%1000)), listenerAddr, []byte{2})
			w.Inject(0, netip.AddrPortFrom(p.addr.Addr(), uint16(8000+i%1000)), listenerAddr, []byte("hi?"))
		}
		w.Run(time.Second)
		if len(w.bans().All()) > 0 || p.gone() {
			t.Errorf("%s: bans %+v, gone: %v", clients.Spec().Name, w.bans().All(), p.gone())
		}
	}
	game := rtype.New(rtype.Options{Dialect: rtype.Game32})
	route := matrixRoute(game, game)
	w := newWorldWith(t, 1, simnet.Weather{}, game, route, func(s *Settings) { s.Bounds = bounds })
	w.talkative()
	forged := playerAddr(9)
	w.Inject(0, forged, listenerAddr, []byte("start"))
	w.Run(100 * time.Millisecond)
	for range 500 {
		w.Inject(0, forged, listenerAddr, []byte{3, 0, 0, 0, 1, 0, 0})
	}
	w.Run(time.Second)
	if len(w.bans().All()) > 0 || w.breaches(ratelimit.Packets, ratelimit.PerSession).Enforced == 0 {
		t.Errorf("a forged R-Type session: bans %+v, %+v", w.bans().All(),
			w.breaches(ratelimit.Packets, ratelimit.PerSession))
	}
}

// TestStrangersCannotSpendAPlayersLimits sends a flood from other ports of a player's address. The limits of that
// address and its network stay available to the player.
func TestStrangersCannotSpendAPlayersLimits(t *testing.T) {
	w := guarded(t, riptide22(), raknet6(),
		limit(ratelimit.Packets, ratelimit.PerAddress, 100, 100, ratelimit.Drop),
		limit(ratelimit.Packets, ratelimit.PerNetwork, 200, 200, ratelimit.Drop),
		limit(ratelimit.Packets, ratelimit.Overall, 300, 300, ratelimit.Drop))
	p := w.connect(codec.Hello{})
	for i := range 5000 {
		w.Inject(0, netip.AddrPortFrom(p.addr.Addr(), uint16(6000+i)), listenerAddr, []byte("flood"))
	}
	w.Run(50 * time.Millisecond)
	if w.breaches(ratelimit.Packets, ratelimit.PerAddress).Enforced == 0 {
		t.Fatal("the flood is within the limits")
	}
	before := w.drops(stats.DropRate)
	w.stillPlays(p, codec.Message{Payload: []byte("x"), Mode: codec.Reliable, ID: 1, HasID: true})
	if n := w.drops(stats.DropRate); n != before {
		t.Errorf("%d of the player's datagrams were dropped", n-before)
	}
}

// TestSessionsOfAnAddressCountTogether also asserts that the last session of a network releases its count.
func TestSessionsOfAnAddressCountTogether(t *testing.T) {
	w := guarded(t, riptide22(), raknet6(), limit(ratelimit.ReliableMessages, ratelimit.PerNetwork, 1, 30,
		ratelimit.Disconnect))
	a, b := w.connect(codec.Hello{}), w.connect(codec.Hello{})
	for i := range 20 {
		for _, p := range []*player{a, b} {
			w.send(&p.peer, codec.Message{Payload: []byte{byte(i)}, Mode: codec.Reliable, ID: 1, HasID: true})
		}
	}
	w.Run(time.Second)
	if !a.gone() && !b.gone() {
		t.Error("40 messages of two players of a network pass a limit of 30")
	}
	w.proxy.relay.Drain(w.Now())
	w.await("drained", 10*time.Second, w.proxy.relay.Drained)
	if counts := w.proxy.relay.guard.Counts(); counts != (admission.Counts{}) {
		t.Errorf("remembered are %+v", counts)
	}
}

// TestQueuedBytes asserts that a client with too much in its queue loses messages, and that other clients lose none.
func TestQueuedBytes(t *testing.T) {
	w := guarded(t, raknet6(), raknet6(), limit(ratelimit.QueuedBytes, ratelimit.Overall, 50_000, 1, ratelimit.Drop))
	deaf, other := w.connect(codec.Hello{}), w.connect(codec.Hello{})
	w.Run(100 * time.Millisecond)
	w.SetPath(listenerAddr, deaf.addr, simnet.Weather{Loss: 1})
	for range 20 {
		for _, p := range w.servers[0].peers {
			m := codec.Message{Payload: append([]byte{0x86}, make([]byte, 1000)...), Mode: codec.ReliableOrdered}
			if w.servers[0].addrOf(p) == upstreamSocketAddr(0) {
				for range 5 {
					_ = p.conn.Send(w.Now(), m)
				}
			}
		}
		w.Run(10 * time.Millisecond)
	}
	w.Run(2 * time.Second)
	if w.drops(stats.DropQueueFull) == 0 || w.breaches(ratelimit.QueuedBytes, ratelimit.Overall).Enforced == 0 {
		t.Errorf("%d dropped, %+v", w.drops(stats.DropQueueFull), w.breaches(ratelimit.QueuedBytes, ratelimit.Overall))
	}
	w.stillPlays(other, codec.Message{Payload: []byte{0x86}, Mode: codec.ReliableOrdered})
	w.Run(30 * time.Second)
	if n := w.proxy.relay.guard.Counts().Queued; n > 1000 {
		t.Errorf("%d bytes are still counted", n)
	}
}

// TestReloadCountsSessionsAnew asserts that new limits of a reload apply to present sessions.
func TestReloadCountsSessionsAnew(t *testing.T) {
	w := guarded(t, riptide22(), raknet6())
	p := w.connect(codec.Hello{})
	fresh := *w.settings
	fresh.Bounds = []ratelimit.Limit{limit(ratelimit.Packets, ratelimit.PerAddress, 1, 5, ratelimit.Disconnect)}
	w.proxy.relay.Reload(w.Now(), &fresh, nil)
	for range 50 {
		w.send(&p.peer, codec.Message{Payload: []byte("x"), Mode: codec.Unreliable, ID: 1, HasID: true})
	}
	w.await("disconnected", time.Second, p.gone)
}
