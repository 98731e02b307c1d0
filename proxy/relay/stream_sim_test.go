package relay

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"tidegate/codec/codectest/simnet"
	"tidegate/internal/netio"
)

// frames cuts a stream into frames and writes them, as netio does.
type frames struct {
	prefix netio.Prefix
	in     []byte
}

func (f *frames) append(b, frame []byte) []byte {
	if f.prefix == netio.LengthI32LE {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(frame)))
	} else {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(frame)))
	}
	return append(b, frame...)
}

// take calls give with each frame that a segment completes, and then overwrites the frame.
func (f *frames) take(segment []byte, give func(frame []byte)) {
	f.in = append(f.in, segment...)
	head := len(f.append(nil, nil))
	for len(f.in) >= head {
		n := int(binary.LittleEndian.Uint16(f.in)) // frames here are shorter than 64 KiB
		if len(f.in) < head+n {
			return
		}
		frame := bytes.Clone(f.in[head : head+n])
		f.in = f.in[head+n:]
		give(frame)
		for i := range frame {
			frame[i] = 0xdb
		}
	}
}

// simStream is a stream of the Relay.
type simStream struct {
	simSocket
	frames
	net *simnet.Net
}

func (s *simStream) AwaitHello() {}

func (s *simStream) Close() {
	s.closed = true
	s.net.CloseStream(s.addr, s.peer)
}

// streamKey has the two ends of a stream of the Relay.
type streamKey struct{ addr, peer netip.AddrPort }

func (n *relayNode) addStream(addr, peer netip.AddrPort, t Transport, owner any) *simStream {
	s := &simStream{
		simSocket: simSocket{addr: addr, peer: peer, owner: owner}, frames: frames{prefix: t.Prefix}, net: n.net,
	}
	n.streams[streamKey{addr, peer}] = s
	return s
}

func (n *relayNode) DialStream(to netip.AddrPort, o netio.StreamOptions) (netio.Socket, error) {
	s := n.addStream(upstreamSocketAddr(n.dialed), to, Transport{Prefix: o.Prefix}, nil)
	n.dialed++
	n.net.DialStream(s.addr, s.peer)
	return s, nil
}

// Accept implements simnet.StreamNode, together with Segment and Ended.
func (n *relayNode) Accept(_ time.Time, from, to netip.AddrPort) bool {
	listenerSocket := n.sockets[to]
	for _, l := range n.relay.settings.Listeners {
		if l.Addr == to && l.Transport.Stream && listenerSocket != nil {
			n.addStream(to, from, l.Transport, listenerSocket.owner)
			return true
		}
	}
	return false
}

func (n *relayNode) Segment(now time.Time, from, to netip.AddrPort, segment []byte) {
	if n.stopped {
		kept := bytes.Clone(segment)
		n.late(func(now time.Time) { n.Segment(now, from, to, kept) })
		return
	}
	s := n.streams[streamKey{to, from}]
	s.take(segment, func(frame []byte) {
		if !s.closed {
			n.give(now, s, from, frame)
		}
	})
}

func (n *relayNode) Ended(now time.Time, from, to netip.AddrPort) {
	if n.late(func(now time.Time) { n.Ended(now, from, to) }) {
		return
	}
	n.relay.Failed(now, n.streams[streamKey{to, from}], netio.ErrEnded)
}

// tcpPlayer is a game client over TCP. It closes its stream when its connection has ended.
type tcpPlayer struct {
	*player
	frames
	net     *simnet.Net
	dropped bool // the proxy has ended the stream
	left    bool
}

func (c *tcpPlayer) Accept(time.Time, netip.AddrPort, netip.AddrPort) bool { return false }

func (c *tcpPlayer) Segment(now time.Time, from, to netip.AddrPort, segment []byte) {
	c.take(segment, func(frame []byte) { c.Receive(now, from, to, frame) })
}

func (c *tcpPlayer) Ended(time.Time, netip.AddrPort, netip.AddrPort) { c.dropped = true }

func (c *tcpPlayer) Transmit(now time.Time, b []byte) ([]byte, netip.AddrPort, netip.AddrPort, bool) {
	for {
		datagram, from, to, ok := c.player.Transmit(now, b)
		if !ok {
			break
		}
		c.net.WriteStream(from, to, c.append(nil, datagram))
	}
	if c.gone() && !c.left {
		c.left = true
		c.net.CloseStream(c.addr, c.listener())
	}
	return b, netip.AddrPort{}, netip.AddrPort{}, false
}

// tcpGame is a game server over TCP. It refuses all streams while it is down.
type tcpGame struct {
	*game
	prefix  netio.Prefix
	net     *simnet.Net
	streams map[netip.AddrPort]*frames
	ended   []netip.AddrPort // the proxy's streams that the proxy has ended, in order
	// strict says that a second Connect ends a stream, as on servers of Riptide 2.0.
	strict bool
}

func (g *tcpGame) Accept(_ time.Time, from, _ netip.AddrPort) bool {
	g.streams[from] = &frames{prefix: g.prefix}
	return !g.down
}

func (g *tcpGame) Segment(now time.Time, from, to netip.AddrPort, segment []byte) {
	g.streams[from].take(segment, func(frame []byte) {
		if g.strict && g.byAddr[from] != nil && g.protocol.Sniff(frame) {
			g.net.CloseStream(g.addr, from)
			return
		}
		g.Receive(now, from, to, frame)
	})
}

func (g *tcpGame) Ended(_ time.Time, from, _ netip.AddrPort) { g.ended = append(g.ended, from) }

func (g *tcpGame) Transmit(now time.Time, b []byte) ([]byte, netip.AddrPort, netip.AddrPort, bool) {
	for {
		datagram, from, to, ok := g.game.Transmit(now, b)
		if !ok {
			return b, netip.AddrPort{}, netip.AddrPort{}, false
		}
		g.net.WriteStream(from, to, g.streams[to].append(nil, datagram))
	}
}

// playerNode returns a player's node for its listener's transport. A TCP player is already dialling.
func (w *world) playerNode(p *player) simnet.Node {
	t := w.settings.Listeners[0].Transport
	if !t.Stream {
		return p
	}
	w.DialStream(p.addr, listenerAddr)
	node := &tcpPlayer{player: p, frames: frames{prefix: t.Prefix}, net: w.Net}
	w.tcpPlayers = append(w.tcpPlayers, node)
	return node
}

// gameNode returns a game server's node for its upstream's transport.
func (w *world) gameNode(g *game) simnet.Node {
	t := w.settings.Listeners[0].Route.Upstream.Transport
	if !t.Stream {
		return g
	}
	node := &tcpGame{game: g, prefix: t.Prefix, net: w.Net, streams: make(map[netip.AddrPort]*frames)}
	w.tcpServers = append(w.tcpServers, node)
	return node
}

func (p *pipe) DialStream(netip.AddrPort, netio.StreamOptions) (netio.Socket, error) {
	return nil, errors.ErrUnsupported
}
