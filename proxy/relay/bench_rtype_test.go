package relay

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/codec"
	"tidegate/codec/rtype"
	"tidegate/internal/netio"
	"tidegate/proxy/relay/admission"
	"tidegate/session"
)

// meteredSockets counts the datagrams of a Relay to clients.
type meteredSockets struct {
	dialed    []*simSocket
	buffer    []byte
	datagrams int
	bytes     int // on the wire
}

func (m *meteredSockets) Dial(to netip.AddrPort, _ netio.SocketOptions) (netio.Socket, error) {
	s := &simSocket{addr: upstreamSocketAddr(len(m.dialed)), peer: to}
	m.dialed = append(m.dialed, s)
	return s, nil
}

func (m *meteredSockets) DialStream(netip.AddrPort, netio.StreamOptions) (netio.Socket, error) {
	return nil, codec.ErrClosed
}

func (m *meteredSockets) Buffer() []byte { return m.buffer[:0] }

func (m *meteredSockets) Send(s netio.Socket, to netip.AddrPort, d []byte) {
	if !s.(*simSocket).peer.IsValid() {
		m.datagrams++
		m.bytes += admission.WireSize(to, len(d))
	}
}

func (m *meteredSockets) Forward(s netio.Socket, to netip.AddrPort, d []byte) { m.Send(s, to, d) }

// BenchmarkRTypeWorld runs one second of R-Type's game. The server updates a world of 100 entities 60 times for 8
// players, one instruction in each datagram. The time is the Relay's alone, without system calls.
func BenchmarkRTypeWorld(b *testing.B) {
	for _, c := range []struct {
		name    string
		dialect rtype.Dialect
		refresh time.Duration
	}{
		{"rtype-32", rtype.Game32, 0}, {"rtype-32-refresh", rtype.Game32, time.Second}, {"rtype-final", rtype.GameLast, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			const players, entities, frames = 8, 100, 60
			g := newBenchGame(b, rtype.New(rtype.Options{Dialect: c.dialect, Refresh: c.refresh, Seed: [32]byte{1}}), players,
				entities)
			g.sockets.datagrams, g.sockets.bytes = 0, 0
			b.ReportAllocs()
			for b.Loop() {
				for range frames {
					g.now = g.now.Add(time.Second / frames)
					for _, d := range g.frame {
						g.tell(d)
					}
					g.relay.Advance(g.now)
					g.relay.Flush(g.now)
				}
			}
			b.ReportMetric(float64(g.sockets.datagrams)/float64(b.N), "datagrams/op")
			b.ReportMetric(float64(g.sockets.bytes)/float64(b.N), "wire-bytes/op")
			if least := players * entities * frames; g.sockets.datagrams/b.N < least {
				b.Errorf("%d datagrams a second, want %d", g.sockets.datagrams/b.N, least)
			}
		})
	}
}

// benchGame is a Relay with players of one world.
type benchGame struct {
	relay   *Relay
	sockets *meteredSockets
	now     time.Time
	frame   [][]byte // the server's datagrams of one frame
}

func newBenchGame(b *testing.B, p *rtype.Protocol, players, entities int) *benchGame {
	b.Helper()
	g := &benchGame{sockets: &meteredSockets{buffer: make([]byte, 0, codec.MaxDatagram)}, now: time.Unix(1_700_000_000, 0)}
	settings := &Settings{
		Listeners: []Listener{{Name: "play", Addr: listenerAddr, Protocols: []codec.Protocol{p},
			Route: matrixRoute(p, p)}},
		Limits:           session.Limits{Sessions: 100, HalfOpen: 100},
		HandshakeTimeout: time.Hour, IdleTimeout: 1000 * time.Hour,
		Unproved: admission.Unproved{Session: 512 << 10, Network: 4 << 20, Overall: 32 << 20},
	}
	g.relay = New(settings, Options{Seed: 1, Log: zerolog.Nop()}, g.sockets, g.now)
	listenerSocket := &simSocket{addr: listenerAddr}
	g.relay.Attach(0, listenerSocket)
	last := p.Spec().Name == "rtype-final"
	hello, head := []byte("start"), [][]byte{{0, 1}, {4, 0}, []byte("\x00\x00Test")}
	if last {
		hello, head = []byte{0}, [][]byte{[]byte("\x05\x00\x00Test"), {6, 0, 1}}
	}
	for i := range players {
		g.relay.Receive(g.now, listenerSocket, playerAddr(i), hello)
	}
	g.relay.Flush(g.now)
	for i := range entities {
		head = append(head, appendID([]byte{0}, uint32(i), last))
		g.frame = append(g.frame, append(appendID([]byte{3}, uint32(i), last), "\x00\x00x....y....."...))
	}
	for _, d := range head {
		g.tell(d)
	}
	g.relay.Flush(g.now)
	if last {
		for i := range players {
			g.relay.Receive(g.now, listenerSocket, playerAddr(i), []byte{2})
		}
	}
	for range 200 { // until all replays have ended
		g.now = g.now.Add(10 * time.Millisecond)
		g.relay.Advance(g.now)
		g.relay.Flush(g.now)
	}
	return g
}

func appendID(b []byte, id uint32, little bool) []byte {
	if little {
		return binary.LittleEndian.AppendUint32(b, id)
	}
	return binary.BigEndian.AppendUint32(b, id)
}

// tell sends a server's datagram to all players.
func (g *benchGame) tell(d []byte) {
	for _, s := range g.sockets.dialed {
		g.relay.Receive(g.now, s, serverAddr, d)
	}
}
