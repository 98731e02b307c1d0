package proxy

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/upstream"
	"tidegate/proxy/bridge"
	"tidegate/proxy/relay"
	"tidegate/ratelimit"
	"tidegate/session"
)

var (
	virtualListener = netip.MustParseAddrPort("10.0.0.1:7777")
	virtualServers  = []netip.AddrPort{
		netip.MustParseAddrPort("10.1.0.1:19132"), netip.MustParseAddrPort("10.1.0.2:19132"),
	}
)

// crowd is a Server with one loop and many sessions in virtual time. It is the loop's poller. Its players and servers
// are connections in memory.
type crowd struct {
	netio.Poller // nil: the other methods are not called
	t            testing.TB
	now          time.Time
	settings     *relay.Settings
	server       *Server
	relay        *relay.Relay
	protocol     codec.Protocol
	listener     *fakeSocket
	sockets      []*fakeSocket // to servers
	out          []sentDatagram
	seats        map[netio.Socket]codec.Conn // servers' connections
	players      map[netip.AddrPort]codec.Conn
}

type sentDatagram struct {
	by    netio.Socket
	to    netip.AddrPort
	bytes []byte
}

// fakeSocket is a socket without a system.
type fakeSocket struct {
	addr, peer netip.AddrPort
	owner      any
}

func (s *fakeSocket) Addr() netip.AddrPort { return s.addr }
func (s *fakeSocket) Peer() netip.AddrPort { return s.peer }
func (s *fakeSocket) Owner() any           { return s.owner }
func (s *fakeSocket) SetOwner(owner any)   { s.owner = owner }
func (s *fakeSocket) Close()               {}

func (c *crowd) Wake()                 {}
func (c *crowd) Wait(time.Time) error  { return nil }
func (c *crowd) Receive(netio.Handler) {}
func (c *crowd) Flush()                {}
func (c *crowd) Close() error          { return nil }
func (c *crowd) Stats() netio.Stats    { return netio.Stats{} }
func (c *crowd) Buffer() []byte        { return make([]byte, 0, codec.MaxDatagram) }

func (c *crowd) Dial(to netip.AddrPort, _ netio.SocketOptions) (netio.Socket, error) {
	s := &fakeSocket{addr: netip.AddrPortFrom(virtualListener.Addr(), uint16(20000+len(c.sockets))), peer: to}
	c.sockets = append(c.sockets, s)
	return s, nil
}

func (c *crowd) Send(s netio.Socket, to netip.AddrPort, datagram []byte) {
	c.out = append(c.out, sentDatagram{s, to, slices.Clone(datagram)})
}

func (c *crowd) Forward(s netio.Socket, to netip.AddrPort, datagram []byte) { c.Send(s, to, datagram) }

// crowdAddr returns the address of player i. No two players share one.
func crowdAddr(i int) netip.AddrPort {
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], 40<<24+uint32(i))
	return netip.AddrPortFrom(netip.AddrFrom4(ip), 5000)
}

// newCrowd makes a Server with n established sessions from protocol to protocol.
func newCrowd(t testing.TB, n int, protocol codec.Protocol, mode policy.Mode, change func(*relay.Settings)) *crowd {
	t.Helper()
	c := newVirtual(t, protocol, mode, func(s *relay.Settings) {
		s.Limits = session.Limits{Sessions: 2 * n, HalfOpen: 2 * n}
		s.HandshakeTimeout, s.IdleTimeout = time.Hour, time.Hour
		change(s)
	})
	for i := range n {
		from := crowdAddr(i)
		c.players[from] = protocol.Dial(c.now, virtualListener, codec.Hello{Identity: uint64(i + 1)})
		for range 12 {
			c.speak(from)
		}
	}
	if got := c.relay.Figures().Counters.Established; mode != policy.ModeRelay && got < uint64(n-n/100) {
		t.Fatalf("%d of %d sessions are established", got, n)
	}
	return c
}

// newVirtual makes a Server without sessions.
func newVirtual(t testing.TB, protocol codec.Protocol, mode policy.Mode, change func(*relay.Settings)) *crowd {
	c := &crowd{
		t: t, now: time.Unix(1_700_000_000, 0), protocol: protocol, listener: &fakeSocket{addr: virtualListener},
		seats: make(map[netio.Socket]codec.Conn), players: make(map[netip.AddrPort]codec.Conn),
	}
	route := &relay.Route{
		Name: "arena", Mode: mode, Bridge: bridge.Options{Ordered: policy.OrderedFast, PacketID: 0x86, Queue: 1 << 20},
		Upstream: &relay.Upstream{
			Name: "arena", Protocol: protocol, Servers: []upstream.Target{{Addr: virtualServers[0]}, {Addr: virtualServers[1]}},
			Options: upstream.Options{RetryAfter: 5 * time.Second},
		},
	}
	c.settings = &relay.Settings{
		Listeners: []relay.Listener{{
			Name: "play", Addr: virtualListener, Protocols: []codec.Protocol{protocol}, Route: route,
		}},
		Limits: session.Limits{Sessions: 100, HalfOpen: 50}, HandshakeTimeout: 10 * time.Second,
		IdleTimeout: 30 * time.Second, DrainTimeout: 3 * time.Second,
	}
	change(c.settings)
	bans := ratelimit.NewBans(ratelimit.Terms{First: time.Minute, Longest: time.Hour, Memory: time.Hour})
	c.server = &Server{settings: c.settings, options: Options{Bans: bans}, shared: relay.NewShared(c.now, 1)}
	c.relay = relay.New(c.settings, relay.Options{
		Seed: 1, Log: zerolog.Nop(), Bans: bans, Shared: c.server.shared, Deserted: func() {}, // the Server sweeps later
	}, c, c.now)
	c.relay.Attach(0, c.listener)
	return c
}

// run returns the Server's loop, whose turns the test takes. p is its poller.
func (c *crowd) run(p netio.Poller) *loop {
	l := newLoop(c.relay, p, nil)
	l.clock = newClock(func() time.Time { return c.now })
	l.clock.start()
	c.server.loops = []*loop{l}
	return l
}

func (c *crowd) turn(l *loop) {
	c.t.Helper()
	if err := l.turn(); err != nil {
		c.t.Fatal(err)
	}
	c.out = nil
}

// fallBehind makes more datagrams wait than a loop that keeps up ever has. They are a banned stranger's.
func (c *crowd) fallBehind() { fallBehind(c.relay, c.now, c.listener) }

func fallBehind(r *relay.Relay, now time.Time, listener netio.Socket) {
	r.InputDrained()
	for n := 0; !r.Behind(); n++ {
		r.Receive(now, listener, netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, 0, 113, byte(n)}), 0), nil)
	}
}

// speak lets a player send, and delivers all that follows.
func (c *crowd) speak(from netip.AddrPort) {
	for _, b := range c.says(c.players[from]) {
		c.relay.Receive(c.now, c.listener, from, b)
	}
	for c.relay.Flush(c.now); len(c.out) > 0; c.relay.Flush(c.now) {
		d := c.out[0]
		c.out = c.out[1:]
		if d.by != c.listener {
			c.serve(d)
		} else if player := c.players[d.to]; player != nil {
			_ = player.Receive(c.now, d.bytes)
		}
	}
}

// serve gives a server a datagram.
func (c *crowd) serve(d sentDatagram) {
	seat := c.seats[d.by]
	if seat == nil {
		var reply []byte
		seat, reply, _ = c.protocol.Accept(c.now, d.by.Addr(), d.bytes, nil)
		if len(reply) > 0 {
			c.relay.Receive(c.now, d.by, d.by.Peer(), reply)
		}
		if seat == nil {
			return
		}
		c.seats[d.by] = seat
	} else {
		_ = seat.Receive(c.now, d.bytes)
	}
	for _, b := range c.says(seat) {
		c.relay.Receive(c.now, d.by, d.by.Peer(), b)
	}
}

// says returns the datagrams that a connection sends now.
func (c *crowd) says(conn codec.Conn) (all [][]byte) {
	for ev, ok := conn.Poll(); ok; ev, ok = conn.Poll() {
		if ev.Kind == codec.Asked {
			conn.Admit(c.now, 1)
		}
	}
	for b, ok := conn.Transmit(c.now, nil); ok; b, ok = conn.Transmit(c.now, nil) {
		all = append(all, b)
	}
	return all
}
