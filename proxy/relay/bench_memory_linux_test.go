package relay

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/internal/joining"
	"tidegate/internal/netio"
	"tidegate/internal/policy"
	"tidegate/internal/upstream"
	"tidegate/session"
)

// idleSessions is the number of sessions by which one session's memory is measured.
const idleSessions = 10_000

// crowdNet has the sockets of a Relay. A real Poller opens them. Sent datagrams go straight to players and servers
// that are connections in memory.
type crowdNet struct {
	netio.Poller
	t        testing.TB
	relay    *Relay
	now      time.Time
	listener netio.Socket
	servers  codec.Protocol
	players  map[netip.AddrPort]codec.Conn
	seats    map[netio.Socket]codec.Conn
	buffer   []byte
	own      []byte
}

func (c *crowdNet) Buffer() []byte { return c.buffer[:0] }

func (c *crowdNet) Forward(s netio.Socket, to netip.AddrPort, datagram []byte) {
	c.Send(s, to, datagram)
}

func (c *crowdNet) Send(s netio.Socket, to netip.AddrPort, datagram []byte) {
	if !s.Peer().IsValid() {
		if p := c.players[to]; p != nil {
			_ = p.Receive(c.now, datagram)
			c.drain(p)
		}
		return
	}
	if seat := c.seats[s]; seat != nil {
		_ = seat.Receive(c.now, datagram)
		c.drain(seat)
		return
	}
	seat, reply, _ := c.servers.Accept(c.now, s.Addr(), datagram, nil)
	if seat != nil {
		c.seats[s] = seat
		c.drain(seat)
	}
	if len(reply) > 0 {
		c.relay.Receive(c.now, s, s.Peer(), reply)
	}
}

func (c *crowdNet) drain(conn codec.Conn) {
	for ev, ok := conn.Poll(); ok; ev, ok = conn.Poll() {
		if ev.Kind == codec.Asked {
			conn.Admit(c.now, 1)
		}
	}
}

// step lets time pass, and lets every player and server send its datagrams.
func (c *crowdNet) step(after time.Duration) {
	c.now = c.now.Add(after)
	for from, p := range c.players {
		p.Advance(c.now)
		c.drain(p)
		for d, ok := p.Transmit(c.now, c.room()); ok; d, ok = p.Transmit(c.now, c.room()) {
			c.relay.Receive(c.now, c.listener, from, d)
		}
	}
	c.relay.Advance(c.now)
	c.relay.Flush(c.now)
	for s, seat := range c.seats {
		seat.Advance(c.now)
		for d, ok := seat.Transmit(c.now, c.room()); ok; d, ok = seat.Transmit(c.now, c.room()) {
			c.relay.Receive(c.now, s, s.Peer(), d)
		}
	}
	c.relay.Flush(c.now)
}

// room returns a buffer for a datagram of a player or a server.
func (c *crowdNet) room() []byte { return c.own[:0] }

// newCrowdNet makes a Relay without sessions.
func newCrowdNet(t testing.TB, carrier Transport, mode policy.Mode, protocol codec.Protocol) *crowdNet {
	poller, err := netio.New(netio.Options{Backend: netio.Epoll})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = poller.Close() })
	c := &crowdNet{
		Poller: poller, t: t, now: time.Now(), servers: protocol,
		players: make(map[netip.AddrPort]codec.Conn), seats: make(map[netio.Socket]codec.Conn),
		buffer: make([]byte, 0, codec.MaxDatagram), own: make([]byte, 0, codec.MaxDatagram),
	}
	server, err := poller.Listen(netip.MustParseAddrPort("127.0.0.1:0"), netio.SocketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	route := defaultRoute(protocol)
	route.Mode, route.Upstream.Servers, route.Upstream.Transport = mode, []upstream.Target{{Addr: server.Addr()}}, carrier
	settings := &Settings{
		Listeners:        []Listener{{Name: "play", Addr: listenerAddr, Protocols: []codec.Protocol{protocol}, Route: route}},
		Limits:           session.Limits{Sessions: 100_000, HalfOpen: 100_000},
		HandshakeTimeout: time.Minute, IdleTimeout: time.Minute,
	}
	if protocol == NetherNet {
		limits := joining.DefaultLimits
		limits.Unfinished = idleSessions
		settings.Listeners[0].Joins = joining.NewTickets(limits, nil)
	}
	c.relay = New(settings, Options{Seed: 1, Log: zerolog.Nop()}, c, c.now)
	if c.listener, err = poller.Listen(netip.MustParseAddrPort("127.0.0.1:0"), netio.SocketOptions{}); err != nil {
		t.Fatal(err)
	}
	c.relay.Attach(0, c.listener)
	return c
}

// relayed establishes a session in ModeRelay.
func (c *crowdNet) relayed(from netip.AddrPort) {
	key := session.Key{Listener: c.relay.listeners[0].index, Client: from}
	c.relay.Receive(c.now, c.listener, from, []byte("hello"))
	s := c.relay.table.peek(key).Value.socket
	c.relay.Receive(c.now, s, s.Peer(), []byte("hello yourself"))
	c.relay.Receive(c.now, c.listener, from, []byte("play"))
}

// terminated establishes terminated sessions and lets them be idle for a while. Then it forgets the players and the
// servers.
func (c *crowdNet) terminated(all []netip.AddrPort) {
	for i, from := range all {
		c.players[from] = c.servers.Dial(c.now, listenerAddr, codec.Hello{Identity: uint64(i + 1)})
	}
	for range 200 {
		c.step(50 * time.Millisecond)
	}
	if n := c.relay.counters.Established; n != uint64(len(all)) || c.relay.counters.Closed > 0 {
		c.t.Fatalf("%d sessions of %d were established: %+v", n, len(all), c.relay.counters)
	}
	c.players, c.seats = nil, nil
}

// BenchmarkIdleSession measures the memory of an idle session: heap, and the kernel's slabs. Other processes add
// noise to the slabs.
func BenchmarkIdleSession(b *testing.B) {
	own := Transport{Sources: netip.MustParsePrefix("127.64.0.0/10")}
	for _, c := range []struct {
		name     string
		carrier  Transport
		mode     policy.Mode
		protocol codec.Protocol
	}{
		{"relay, sources", own, policy.ModeRelay, Any},
		{"relay, a socket each", Transport{}, policy.ModeRelay, Any},
		{"raknet to raknet, sources", own, policy.ModeTerminate, raknet6()},
		{"riptide to riptide, sources", own, policy.ModeTerminate, riptide22()},
	} {
		b.Run(c.name, func(b *testing.B) {
			for range b.N {
				n := newCrowdNet(b, c.carrier, c.mode, c.protocol)
				heap, slabs := heapInUse(), slabBytes(b)
				if c.mode == policy.ModeTerminate {
					n.terminated(crowd(idleSessions))
				} else {
					for _, from := range crowd(idleSessions) {
						n.relayed(from)
					}
				}
				b.ReportMetric(float64(heapInUse()-heap)/idleSessions, "heap-B/session")
				b.ReportMetric(float64(slabBytes(b)-slabs)/idleSessions, "kernel-B/session")
				runtime.KeepAlive(n)
				_ = n.Close()
			}
		})
	}
}

// crowd returns the addresses of n players.
func crowd(n int) []netip.AddrPort {
	all := make([]netip.AddrPort, n)
	for i := range all {
		all[i] = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 5000)
	}
	return all
}

// heapInUse returns the size of reachable heap objects and of stacks.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // for objects that the first collection released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// slabBytes returns the size of the kernel's slabs, for all processes.
func slabBytes(t testing.TB) (kb int64) {
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "Slab:"); ok {
			_, _ = fmt.Sscan(rest, &kb)
		}
	}
	return kb << 10
}
