package relay

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/upstream"
	"tidegate/proxy/bridge"
	"tidegate/proxy/stats"
	"tidegate/ratelimit"
	"tidegate/session"
)

// Addresses of the simulated world: a listener of the proxy, and two game servers.
var (
	listenerAddr = netip.MustParseAddrPort("10.0.0.1:7777")
	serverAddr   = netip.MustParseAddrPort("10.1.0.1:19132")
	secondAddr   = netip.MustParseAddrPort("10.1.0.2:19132")
)

// believed is the longest time until a session believes a goodbye. It first waits for silence, as against a forgery.
const believed = 3 * time.Second

func playerAddr(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 2, byte(i >> 8), byte(i)}), 5000)
}

func upstreamSocketAddr(i int) netip.AddrPort {
	return netip.AddrPortFrom(listenerAddr.Addr(), uint16(40000+i))
}

// relayNode is a Relay in the simulated network. Its sockets are entries of a map.
type relayNode struct {
	relay   *Relay
	net     *simnet.Net
	sockets map[netip.AddrPort]*simSocket
	streams map[streamKey]*simStream
	dialed  int
	out     []simDatagram
	buffer  []byte
	noDial  error // the error of Dial
	noLocal bool  // no socket can have a port of its choice
	// fragments says that the system cannot forbid fragments.
	fragments bool
	stopped   bool                  // the process does not run; its input waits
	since     time.Time             // when it was stopped
	waiting   []func(now time.Time) // input, until resume
	sends     int                   // datagrams that the Relay has written
	copies    []copiedPass          // for the next Relay
	// receive takes the Relay's datagrams, if a test watches them; nil: the Relay itself.
	receive func(now time.Time, s netio.Socket, from netip.AddrPort, datagram []byte)
	frames  []simDatagram // written to streams, for receive
}

// give gives the Relay a datagram.
func (n *relayNode) give(now time.Time, s netio.Socket, from netip.AddrPort, datagram []byte) {
	if n.receive != nil {
		n.receive(now, s, from, datagram)
		return
	}
	n.relay.Foresee(s, from)
	n.relay.Receive(now, s, from, datagram)
}

// stop stops the process until resume.
func (n *relayNode) stop(now time.Time) { n.stopped, n.since = true, now }

// late keeps an input of a stopped process. It reports false for one that runs.
func (n *relayNode) late(input func(now time.Time)) bool {
	if n.stopped {
		n.waiting = append(n.waiting, input)
	}
	return n.stopped
}

// resume lets a stopped process run again.
func (n *relayNode) resume(now time.Time) {
	n.stopped = false
	inputs := n.waiting
	n.waiting = nil
	n.relay.Stood(now.Sub(n.since))
	for _, input := range inputs {
		input(now)
	}
	n.relay.Advance(now)
}

type simDatagram struct {
	from, to netip.AddrPort
	bytes    []byte
}

type simSocket struct {
	addr, peer netip.AddrPort
	owner      any
	closed     bool
	whole      bool // routers must not fragment its datagrams
	options    netio.SocketOptions
}

func (s *simSocket) AllowFragments() error {
	s.whole = false
	return nil
}

func (s *simSocket) Addr() netip.AddrPort { return s.addr }
func (s *simSocket) Peer() netip.AddrPort { return s.peer }
func (s *simSocket) Owner() any           { return s.owner }
func (s *simSocket) SetOwner(owner any)   { s.owner = owner }
func (s *simSocket) Close()               { s.closed = true }

func (n *relayNode) Dial(to netip.AddrPort, o netio.SocketOptions) (netio.Socket, error) {
	switch {
	case n.noDial != nil:
		return nil, n.noDial
	case o.DontFragment && n.fragments:
		return nil, errors.ErrUnsupported
	}
	s := &simSocket{addr: upstreamSocketAddr(n.dialed), peer: to, whole: o.DontFragment, options: o}
	switch {
	case o.LocalPort != 0 && n.noLocal:
		return nil, netio.ErrAddress
	case o.LocalPort != 0:
		s.addr = netip.AddrPortFrom(o.Local, o.LocalPort)
		n.dialed--
	case o.Local.IsValid():
		s.addr = netip.AddrPortFrom(o.Local, s.addr.Port())
	}
	n.dialed++
	n.sockets[s.addr] = s
	return s, nil
}

func (n *relayNode) Buffer() []byte { return n.buffer[:0] }

func (n *relayNode) Send(s netio.Socket, to netip.AddrPort, datagram []byte) {
	n.sends++
	if stream, ok := s.(*simStream); ok {
		if n.net == nil {
			return // the Relay has been replaced
		}
		if n.receive != nil {
			n.frames = append(n.frames, simDatagram{stream.addr, stream.peer, bytes.Clone(datagram)})
		}
		n.net.WriteStream(stream.addr, stream.peer, stream.append(nil, datagram))
		return
	}
	socket := s.(*simSocket)
	if socket.peer.IsValid() {
		to = socket.peer
	}
	n.out = append(n.out, simDatagram{socket.addr, to, bytes.Clone(datagram)})
}

func (n *relayNode) Forward(s netio.Socket, to netip.AddrPort, datagram []byte) {
	n.Send(s, to, datagram)
}

func (n *relayNode) Receive(now time.Time, from, to netip.AddrPort, datagram []byte) {
	if n.stopped {
		kept := bytes.Clone(datagram)
		n.late(func(now time.Time) { n.Receive(now, from, to, kept) })
		return
	}
	s := n.sockets[to]
	if s == nil || s.closed || s.peer.IsValid() && s.peer != from {
		return
	}
	n.give(now, s, from, datagram)
}

func (n *relayNode) Advance(now time.Time) { n.relay.Advance(now) }

func (n *relayNode) NextTimeout() time.Time {
	if n.stopped {
		return time.Time{}
	}
	return n.relay.NextTimeout()
}

func (n *relayNode) Transmit(now time.Time, b []byte) ([]byte, netip.AddrPort, netip.AddrPort, bool) {
	if len(n.out) == 0 && !n.stopped {
		n.relay.Flush(now)
	}
	if len(n.out) == 0 {
		return b, netip.AddrPort{}, netip.AddrPort{}, false
	}
	next := n.out[0]
	n.out = n.out[1:]
	return append(b, next.bytes...), next.from, next.to, true
}

// world is a proxy between players and game servers, in virtual time.
type world struct {
	*simnet.Net
	t        testing.TB
	clients  codec.Protocol
	proxy    *relayNode
	servers  [2]*game
	settings *Settings
	players  int

	tcpPlayers []*tcpPlayer // the players, if they use TCP
	tcpServers []*tcpGame   // the servers, if they use TCP

	copies    []copiedPass // of a pre-copy, until the Relay is replaced
	unchanged int          // sessions that were unchanged since their copy
}

// defaultRoute returns a route that tests change before they call newWorld.
func defaultRoute(upstreams codec.Protocol) *Route {
	return &Route{
		Name: "arena", Bridge: bridge.Options{Ordered: policy.OrderedFast, PacketID: 0x86, Queue: 1 << 20},
		Upstream: &Upstream{
			Name: "arena", Protocol: upstreams, Servers: []upstream.Target{{Addr: serverAddr}},
			Options: upstream.Options{RetryAfter: 5 * time.Second},
		},
	}
}

// newWorld joins players of one protocol to servers of the route's protocol.
func newWorld(t testing.TB, seed uint64, weather simnet.Weather, clients codec.Protocol, route *Route) *world {
	return newWorldWith(t, seed, weather, clients, route, func(*Settings) {})
}

// newWorldWith is newWorld with a function that changes the settings first. A short run skips the test: a world has one
// goroutine, so the race detector finds nothing in it.
func newWorldWith(t testing.TB, seed uint64, weather simnet.Weather, clients codec.Protocol, route *Route,
	change func(*Settings)) *world {
	if testing.Short() {
		t.Skip("one goroutine")
	}
	w := &world{Net: simnet.New(t, seed, weather), t: t, clients: clients}
	w.settings = &Settings{
		Listeners:        []Listener{{Name: "play", Addr: listenerAddr, Protocols: []codec.Protocol{clients}, Route: route}},
		Limits:           session.Limits{Sessions: 100, HalfOpen: 50},
		HandshakeTimeout: 15 * time.Second,
		IdleTimeout:      30 * time.Second,
		DrainTimeout:     3 * time.Second,
	}
	change(w.settings)
	w.proxy = &relayNode{
		net:     w.Net,
		sockets: make(map[netip.AddrPort]*simSocket),
		streams: make(map[streamKey]*simStream),
		buffer:  make([]byte, 0, codec.MaxDatagram),
	}
	w.proxy.relay = New(w.settings, Options{Seed: seed, Log: zerolog.Nop(), Bans: ratelimit.NewBans(banTerms)},
		w.proxy, w.Now())
	listenerSocket := &simSocket{addr: listenerAddr}
	w.proxy.sockets[listenerAddr] = listenerSocket
	w.proxy.relay.Attach(0, listenerSocket)
	addrs := []netip.AddrPort{listenerAddr}
	for i := range 200 {
		addrs = append(addrs, upstreamSocketAddr(i))
	}
	w.Add(w.proxy, addrs...)
	for i, addr := range []netip.AddrPort{serverAddr, secondAddr} {
		w.servers[i] = &game{
			protocol: route.Upstream.Protocol, addr: addr, byAddr: make(map[netip.AddrPort]*peer), react: welcome(),
		}
		w.Add(w.gameNode(w.servers[i]), addr)
	}
	if replaceWorlds {
		w.replaceAgain(rand.New(rand.NewPCG(seed, 9)))
	}
	return w
}

// join lets a new player dial the proxy.
func (w *world) join(hello codec.Hello) *player {
	w.players++
	return w.joinFrom(playerAddr(w.players-1), hello)
}

// joinFrom is join from an address.
func (w *world) joinFrom(addr netip.AddrPort, hello codec.Hello) *player {
	p := &player{addr: addr}
	p.conn = w.clients.Dial(w.Now(), listenerAddr, hello)
	w.Add(w.playerNode(p), p.addr)
	return p
}

// connect is join, and waits until the player is connected.
func (w *world) connect(hello codec.Hello) *player {
	w.t.Helper()
	p := w.join(hello)
	w.await("connected", 20*time.Second, func() bool { return p.find(codec.Connected) != nil })
	return p
}

// await runs until done, or fails the test after limit.
func (w *world) await(what string, limit time.Duration, done func() bool) {
	w.t.Helper()
	if !w.RunUntil(limit, done) {
		w.t.Fatalf("not %s after %v", what, limit)
	}
}

// keyOf returns the key of a player's session at the first listener.
func (w *world) keyOf(p *player) session.Key {
	return session.Key{Listener: w.proxy.relay.listeners[0].index, Client: p.addr}
}

// drops returns how often the Relay dropped a datagram or message for a reason.
func (w *world) drops(why stats.Drop) uint64 { return w.proxy.relay.counters.Drops[why] }

// send gives a player's message to its connection.
func (w *world) send(p *peer, m codec.Message) {
	w.t.Helper()
	if err := p.conn.Send(w.Now(), m); err != nil {
		w.t.Fatalf("send: %v", err)
	}
}

// snapshot is the state of a Relay and its sessions.
type snapshot struct {
	Counters stats.Counters
	Sessions []Session
}

// Snapshot copies the state of the Relay and its sessions at once.
func (r *Relay) Snapshot(now time.Time) snapshot {
	s := snapshot{Counters: r.counters}
	for e := range r.table.All {
		if complete(r, now, e) {
			s.Sessions = append(s.Sessions, r.describe(now, e))
		}
	}
	return s
}
