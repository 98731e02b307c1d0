package relay

import (
	"net/netip"
	"slices"
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

// Bounds of one fuzzed world.
const (
	fuzzSessions = 4    // and half-open ones
	fuzzSteps    = 1500 // of time
	fuzzMemory   = 16   // datagrams that can be altered
)

// fuzzWorld is a Relay between two honest players, a stranger and honest game servers. It has no network: the fuzzer
// says which datagram arrives, and when. All books of the Relay are compared after each input.
type fuzzWorld struct {
	t       testing.TB
	now     time.Time
	relay   *Relay
	listens *simSocket
	dialed  []*simSocket
	owners  map[*simSocket]*fuzzEnd
	players [2]*fuzzEnd
	clients codec.Protocol
	server  codec.Protocol
	buffer  []byte
	toRelay []fuzzDatagram // honest datagrams under way
	memory  [fuzzMemory][]byte
	recall  int
	steps   int
	sent    uint64 // datagrams that the Relay has written
	scratch []byte
	altered bool // the sessions' traffic comes from an altered record
}

// fuzzEnd is an honest player, or a game server's end of one session.
type fuzzEnd struct {
	conn   codec.Conn
	addr   netip.AddrPort // a player's
	socket *simSocket     // of the Relay, for a server's end
	inbox  [][]byte
	asked  bool
}

type fuzzDatagram struct {
	from *fuzzEnd
	b    []byte
}

// fuzzPair is a pair of protocols with the settings of their Relay.
type fuzzPair struct {
	clients, upstreams codec.Protocol
	settings           *Settings
}

func newFuzzPair(clients, upstreams codec.Protocol, admit policy.Admit, mode policy.Mode,
	hold time.Duration) *fuzzPair {
	route := matrixRoute(clients, upstreams)
	route.Admit, route.Mode = admit, mode
	route.Failover = Failover{Hold: hold}
	route.Upstream.Servers = []upstream.Target{{Addr: serverAddr}, {Addr: secondAddr}}
	return &fuzzPair{clients, upstreams, &Settings{
		Listeners: []Listener{{Name: "play", Addr: listenerAddr, Protocols: []codec.Protocol{clients}, Route: route}},
		Limits: session.Limits{
			Sessions: fuzzSessions, HalfOpen: fuzzSessions, HalfOpenAddress: 2, HalfOpenNetwork: 3,
		},
		HandshakeTimeout: 15 * time.Second, IdleTimeout: 30 * time.Second, DrainTimeout: 3 * time.Second,
		Unproved: admission.Unproved{},
		Bounds: []ratelimit.Limit{
			{Of: ratelimit.Packets, Rate: ratelimit.Rate{PerSecond: 500, Burst: 500}, Verdict: ratelimit.Drop},
		},
	}}
}

func newFuzzWorld(t testing.TB, p *fuzzPair) *fuzzWorld {
	w := &fuzzWorld{
		t: t, now: time.Unix(1_900_000_000, 0), clients: p.clients, server: p.upstreams,
		owners: make(map[*simSocket]*fuzzEnd), buffer: make([]byte, 0, simnet.MaxDatagram),
		listens: &simSocket{addr: listenerAddr},
	}
	w.relay = New(p.settings, Options{Seed: 1, Log: zerolog.Nop(), Bans: ratelimit.NewBans(banTerms)}, w, w.now)
	w.relay.Attach(0, w.listens)
	for i := range w.players {
		hello := codec.Hello{Identity: uint64(70 + i)}
		w.players[i] = &fuzzEnd{addr: playerAddr(i), conn: p.clients.Dial(w.now, listenerAddr, hello)}
	}
	return w
}

// Dial implements Sockets.
func (w *fuzzWorld) Dial(to netip.AddrPort, o netio.SocketOptions) (netio.Socket, error) {
	s := &simSocket{addr: upstreamSocketAddr(len(w.dialed) % 20000), peer: to, whole: o.DontFragment, options: o}
	w.dialed = append(w.dialed, s)
	w.owners[s] = &fuzzEnd{socket: s}
	return s, nil
}

// DialStream implements Sockets.
func (w *fuzzWorld) DialStream(netip.AddrPort, netio.StreamOptions) (netio.Socket, error) {
	panic("no streams here")
}

// Buffer implements Sockets.
func (w *fuzzWorld) Buffer() []byte { return w.buffer[:0] }

// Forward implements Sockets.
func (w *fuzzWorld) Forward(s netio.Socket, to netip.AddrPort, b []byte) { w.Send(s, to, b) }

// Send implements Sockets.
func (w *fuzzWorld) Send(s netio.Socket, to netip.AddrPort, b []byte) {
	w.sent++
	if len(b) == 0 {
		w.t.Fatal("the Relay sends an empty datagram")
	}
	socket := s.(*simSocket)
	if socket.closed {
		w.t.Fatal("the Relay sends by a closed socket")
	}
	if e := w.owners[socket]; e != nil {
		e.inbox = append(e.inbox, slices.Clone(b))
		return
	}
	for _, p := range w.players {
		if p.addr == to {
			p.inbox = append(p.inbox, slices.Clone(b))
		}
	}
}

// receive gives the Relay a datagram, and checks that it is forwarded, answered, kept by a session or dropped with a
// reason.
func (w *fuzzWorld) receive(s *simSocket, from netip.AddrPort, b []byte) {
	if s.closed {
		return
	}
	w.scratch = append(w.scratch[:0], b...)
	c := &w.relay.counters
	in, dropped, sent, opened := c.Clients.In.Messages+c.Upstreams.In.Messages, w.drops(), w.sent, c.Opened
	fates := w.fates()
	conn := w.connOf(s, from)
	taken := w.taken(conn)
	w.relay.Foresee(s, from)
	w.relay.Receive(w.now, s, from, w.scratch)
	for i := range w.scratch {
		w.scratch[i] = 0xee
	}
	if n := c.Clients.In.Messages + c.Upstreams.In.Messages; n != in+1 {
		w.t.Fatalf("one datagram counts as %d", n-in)
	}
	for f, n := range w.fates() {
		fates[f] = n - fates[f]
	}
	if fates[stats.FateStray] > 0 != (s.owner == nil) || fates[stats.FateDropped] > 0 && w.drops() == dropped ||
		fates[stats.FateStray]+fates[stats.FateAnswered]+fates[stats.FateTaken]+fates[stats.FateDropped] != 1 {
		w.t.Fatalf("a datagram from %v has the fates %v, %d more drops: %x", from, fates, w.drops()-dropped, b)
	}
	fate := w.drops() != dropped || w.sent != sent || c.Opened != opened || w.taken(conn) != taken
	if !fate && s.owner != nil {
		w.t.Fatalf("a datagram from %v is neither taken, answered nor counted as dropped: %x", from, b)
	}
	w.check()
}

// connOf returns the connection behind a socket, or nil.
func (w *fuzzWorld) connOf(s *simSocket, from netip.AddrPort) codec.Conn {
	switch owner := s.owner.(type) {
	case *Entry:
		if !owner.Value.isRelayed() {
			return owner.Value.upstream.Conn
		}
	case *listener:
		if e := w.relay.table.peek(session.Key{Listener: owner.index, Client: from}); e != nil && !e.Value.isRelayed() {
			return e.Value.client.Conn
		}
	case *closingConn:
		return owner.conn
	}
	return nil
}

// taken returns how many datagrams a connection has read, or the Relay has relayed.
func (w *fuzzWorld) taken(conn codec.Conn) uint64 {
	if conn == nil {
		return w.relay.counters.RelayedUp.Messages + w.relay.counters.RelayedDown.Messages
	}
	figures := conn.Stats()
	return figures.Received + figures.Dropped
}

// fates returns the number of received datagrams by their fate.
func (w *fuzzWorld) fates() (n [stats.FateCount]uint64) {
	for f := range n {
		n[f] = w.relay.counters.Clients.Fates[f] + w.relay.counters.Upstreams.Fates[f]
	}
	return n
}

func (w *fuzzWorld) drops() (n uint64) {
	for _, one := range w.relay.counters.Drops {
		n += one
	}
	return n
}

// flush does what a loop does after its inputs. A deadline must move on.
func (w *fuzzWorld) flush() {
	w.relay.Flush(w.now)
	if len(w.relay.dirty) > 0 {
		w.t.Fatal("sessions wait for another Flush")
	}
	w.check()
}

// check compares the Relay's books.
func (w *fuzzWorld) check() {
	r, c := w.relay, &w.relay.counters
	if n := uint64(r.table.Len()); c.Opened-c.Closed != n {
		w.t.Fatalf("%d sessions opened, %d closed, %d in the table", c.Opened, c.Closed, n)
	}
	if r.table.Len() > fuzzSessions || r.table.HalfOpen() > fuzzSessions {
		w.t.Fatalf("%d sessions, %d half-open: more than the limit", r.table.Len(), r.table.HalfOpen())
	}
	var up, down uint64
	for e := range r.table.All {
		s := &e.Value
		up, down = up+s.fromClient.Messages, down+s.fromServer.Messages
	}
	if w.altered {
		return
	}
	if up > c.FromClients.Messages+c.RelayedUp.Messages || down > c.FromUpstreams.Messages+c.RelayedDown.Messages {
		w.t.Fatalf("sessions count %d and %d messages, the Relay fewer", up, down)
	}
}

// pass lets time pass. All due work runs.
func (w *fuzzWorld) pass(d time.Duration) {
	for end := w.now.Add(d); w.steps < fuzzSteps; w.steps++ {
		next := w.relay.NextTimeout()
		for _, e := range w.ends() {
			if e.conn != nil {
				next = codec.Earliest(next, e.conn.NextTimeout())
			}
		}
		if next.IsZero() || next.After(end) {
			w.now = end
			return
		}
		w.now = later(w.now, next)
		w.work()
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// work runs all due work, and checks that the Relay's deadline moves on.
func (w *fuzzWorld) work() {
	if at := w.relay.NextTimeout(); !at.IsZero() && !at.After(w.now) {
		w.relay.Advance(w.now)
		w.flush()
		if again := w.relay.NextTimeout(); !again.IsZero() && !again.After(at) {
			w.t.Fatalf("Advance at %v leaves the deadline %v", at, again)
		}
	}
	for _, e := range w.ends() {
		if e.conn == nil {
			continue
		}
		if at := e.conn.NextTimeout(); !at.IsZero() && !at.After(w.now) {
			e.conn.Advance(w.now)
		}
		w.settle(e)
	}
}

// ends returns all honest ends, players first.
func (w *fuzzWorld) ends() []*fuzzEnd {
	all := w.players[:]
	for _, s := range w.dialed {
		if !s.closed {
			all = append(all[:len(all):len(all)], w.owners[s])
		}
	}
	return all
}

// settle polls an honest end, which admits everyone, and takes its datagrams.
func (w *fuzzWorld) settle(e *fuzzEnd) {
	for ev, ok := e.conn.Poll(); ok; ev, ok = e.conn.Poll() {
		if ev.Kind == codec.Asked && !e.asked {
			e.asked = true
			e.conn.Admit(w.now, 101)
			if w.server.Spec().Closed {
				_ = e.conn.Send(w.now, codec.Message{Payload: []byte{0, 0, 0, 0, 1}})
			}
		}
	}
	for range 200 {
		b, ok := e.conn.Transmit(w.now, nil)
		if !ok {
			return
		}
		w.toRelay = append(w.toRelay, fuzzDatagram{e, b})
	}
}

// exchange delivers all honest datagrams for some rounds.
func (w *fuzzWorld) exchange(rounds int) {
	for range rounds {
		for _, e := range w.ends() {
			w.read(e)
		}
		under := w.toRelay
		w.toRelay = nil
		for _, d := range under {
			w.remember(d.b)
			w.deliver(d.from, d.b)
		}
		w.flush()
		w.now = w.now.Add(time.Millisecond)
	}
}

// read gives an honest end what the Relay has sent it.
func (w *fuzzWorld) read(e *fuzzEnd) {
	inbox := e.inbox
	e.inbox = nil
	for _, b := range inbox {
		if e.conn == nil {
			conn, reply, _ := w.server.Accept(w.now, e.socket.addr, b, nil)
			if len(reply) > 0 {
				w.toRelay = append(w.toRelay, fuzzDatagram{e, reply})
			}
			e.conn = conn
		} else {
			_ = e.conn.Receive(w.now, b)
		}
		if e.conn != nil {
			w.settle(e)
		}
	}
	if e.conn != nil {
		w.settle(e)
	}
}

// deliver gives the Relay a datagram in the name of an honest end.
func (w *fuzzWorld) deliver(e *fuzzEnd, b []byte) {
	if e.socket != nil {
		w.receive(e.socket, e.socket.peer, b)
	} else {
		w.receive(w.listens, e.addr, b)
	}
}

func (w *fuzzWorld) remember(b []byte) {
	w.memory[w.recall%fuzzMemory] = b
	w.recall++
}

// end drains the Relay. Nothing may be left of its sessions.
func (w *fuzzWorld) end() {
	r := w.relay
	r.Drain(w.now)
	w.flush()
	w.steps = 0
	for !r.Drained() {
		at := r.NextTimeout()
		if at.IsZero() || w.steps == fuzzSteps {
			w.t.Fatalf("%d sessions are left after the drain, the next deadline is %v", r.table.Len(), at)
		}
		w.steps++
		w.now = later(w.now, at)
		r.Advance(w.now)
		w.flush()
	}
	w.now = w.now.Add(time.Minute)
	r.Advance(w.now)
	w.flush()
	for _, s := range w.dialed {
		if _, ok := s.owner.(*Entry); ok && !s.closed {
			w.t.Fatal("a socket to a server is left")
		}
	}
	for _, s := range r.routes[0].pool.Status(w.now) {
		if s.Sessions != 0 {
			w.t.Fatalf("server %v has %d sessions after the drain", s.Addr, s.Sessions)
		}
	}
	if n := r.guard.Counts(); n.Addresses != 0 || n.Networks != 0 {
		w.t.Fatalf("%d addresses and %d networks are counted after the drain", n.Addresses, n.Networks)
	}
	if n := len(r.presence.sessions); n != 0 {
		w.t.Fatalf("%d identities are present after the drain", n)
	}
}
