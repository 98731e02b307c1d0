package relay

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/internal/policy"
	"tidegate/internal/upstream"
	"tidegate/ratelimit"
	"tidegate/session"
)

// mass is a Relay with many sessions in virtual time. Its players and servers are connections in memory.
type mass struct {
	*relayNode
	now      time.Time
	listener *simSocket
	servers  codec.Protocol
	seats    map[netip.AddrPort]codec.Conn // servers' connections, by the socket of the session
	players  map[netip.AddrPort]codec.Conn
	settings *Settings
}

// massAddr returns the address of player i. No two players share one.
func massAddr(i int) netip.AddrPort {
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], 40<<24+uint32(i))
	return netip.AddrPortFrom(netip.AddrFrom4(ip), 5000)
}

// newMass makes a Relay with n established sessions from protocol to protocol.
func newMass(t testing.TB, n int, protocol codec.Protocol, mode policy.Mode, change func(*Settings)) *mass {
	t.Helper()
	route := defaultRoute(protocol)
	route.Mode = mode
	route.Upstream.Servers = []upstream.Target{{Addr: serverAddr}, {Addr: secondAddr}}
	m := &mass{
		now: time.Unix(1_700_000_000, 0), listener: &simSocket{addr: listenerAddr}, servers: protocol,
		seats: make(map[netip.AddrPort]codec.Conn), players: make(map[netip.AddrPort]codec.Conn),
	}
	m.settings = &Settings{
		Listeners:        []Listener{{Name: "play", Addr: listenerAddr, Protocols: []codec.Protocol{protocol}, Route: route}},
		Limits:           session.Limits{Sessions: 2 * n, HalfOpen: 2 * n},
		HandshakeTimeout: time.Hour, IdleTimeout: time.Hour, DrainTimeout: 3 * time.Second,
	}
	change(m.settings)
	m.relayNode = &relayNode{sockets: make(map[netip.AddrPort]*simSocket), buffer: make([]byte, 0, codec.MaxDatagram)}
	bans := ratelimit.NewBans(banTerms)
	m.relay = New(m.settings, Options{Log: zerolog.Nop(), Bans: bans}, m, m.now)
	m.relay.Attach(0, m.listener)
	for i := range n {
		from := massAddr(i)
		m.players[from] = protocol.Dial(m.now, listenerAddr, codec.Hello{Identity: uint64(i + 1)})
		for n := range 12 {
			if m.speak(from); n >= 3 && m.relay.counters.Established > uint64(i) || n >= 3 && mode == policy.ModeRelay {
				break
			}
		}
	}
	if got := m.relay.counters.Established; mode != policy.ModeRelay && got < uint64(n-n/100) {
		t.Fatalf("%d of %d sessions are established", got, n)
	}
	return m
}

// speak lets a player send, and delivers all that follows.
func (m *mass) speak(from netip.AddrPort) {
	player := m.players[from]
	drainEvents(m.now, player)
	for b, ok := player.Transmit(m.now, nil); ok; b, ok = player.Transmit(m.now, nil) {
		m.relay.Receive(m.now, m.listener, from, b)
	}
	m.flush()
}

// flush delivers what the Relay has to send, and the servers' answers.
func (m *mass) flush() {
	m.relay.Flush(m.now)
	for len(m.out) > 0 {
		d := m.out[0]
		m.out = m.out[1:]
		if d.from == listenerAddr {
			if player := m.players[d.to]; player != nil {
				_ = player.Receive(m.now, d.bytes)
			}
			continue
		}
		m.serve(d)
		m.relay.Flush(m.now)
	}
	m.out = nil
}

// serve gives a server a datagram.
func (m *mass) serve(d simDatagram) {
	seat := m.seats[d.from]
	if seat == nil {
		var reply []byte
		seat, reply, _ = m.servers.Accept(m.now, d.from, d.bytes, nil)
		if len(reply) > 0 {
			m.relay.Receive(m.now, m.sockets[d.from], d.to, reply)
		}
		if seat == nil {
			return
		}
		m.seats[d.from] = seat
	} else {
		_ = seat.Receive(m.now, d.bytes)
	}
	drainEvents(m.now, seat)
	for b, ok := seat.Transmit(m.now, nil); ok; b, ok = seat.Transmit(m.now, nil) {
		m.relay.Receive(m.now, m.sockets[d.from], d.to, b)
	}
}

func drainEvents(now time.Time, conn codec.Conn) {
	for ev, ok := conn.Poll(); ok; ev, ok = conn.Poll() {
		if ev.Kind == codec.Asked {
			conn.Admit(now, 1)
		}
	}
}

// ask puts a request to one Relay, as its driver does, and returns its error.
func ask(r *Relay, now time.Time, q Request) error {
	for i, _ := q.Next(1); i >= 0; i, _ = q.Next(1) {
		over := false
		for r.Ask(now, q, func() bool { return true }, func() { over = true }); !over; {
			r.walkOn(now)
		}
	}
	return q.Err(nil)
}

func list(r *Relay, now time.Time, q ListSessions) []Session {
	_ = ask(r, now, &q)
	return q.Sessions
}

func kick(r *Relay, now time.Time, id session.ID, text string) error {
	return ask(r, now, &KickSession{ID: id, Text: text})
}

func moveAll(r *Relay, now time.Time, pool *upstream.Pool, from netip.AddrPort) int {
	moved := 0
	_ = ask(r, now, MoveSessions(pool, from, &moved))
	return moved
}

func whyOf(r *Relay, now time.Time, a netip.Addr) Why {
	q := &ExplainAddress{Address: a}
	_ = ask(r, now, q)
	return q.Why
}
