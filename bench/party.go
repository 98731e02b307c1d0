package bench

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tidegate/codec"
	"tidegate/codec/raknet"
	"tidegate/codec/riptide"
	"tidegate/netio"
)

// Doors of a subject in a flood: what players speak there, and what becomes of it.
const (
	doorRakNet  = iota // RakNet, terminated
	doorRiptide        // Riptide, terminated
	doorRelay          // RakNet, passed on as it is
	doors
)

// spoken is the protocol of each door.
var spoken = [doors]codec.Protocol{
	doorRakNet:  raknet.New(raknet.Options{}),
	doorRiptide: riptide.New(riptide.Options{}),
	doorRelay:   raknet.New(raknet.Options{}),
}

// end is one end of a connection: a player's, or that of the game server for one.
type end struct {
	conn   codec.Conn
	socket netio.Socket
	addr   netip.AddrPort // of the other end
	player *player        // nil: the server's
	up     bool
	gone   bool
}

// player is what one player has said and heard.
type player struct {
	door, index    int
	next           time.Time
	sent, returned [2]uint64 // unreliable and reliable messages
}

// party is players and game servers in one loop, each player saying one reliable and one unreliable message a turn, which its
// server says back.
type party struct {
	poller  netio.Poller
	servers [doors]netio.Socket
	guests  map[netip.AddrPort]*end
	ends    []*end
	now     time.Time
	begun   time.Time
	every   time.Duration
	sending bool
	delays  *hdrhistogram.Histogram // of reliable messages, there and back
	tape    tape

	interruption interruption
}

func newParty(rate int) (*party, error) {
	poller, err := netio.New(netio.Options{})
	if err != nil {
		return nil, err
	}
	now := time.Now()
	g := &party{poller: poller, guests: make(map[netip.AddrPort]*end), now: now, begun: now,
		every: time.Second / time.Duration(rate), delays: newDelays()}
	for door := range g.servers {
		s, err := poller.Listen(netip.AddrPortFrom(home, 0), netio.SocketOptions{})
		if err != nil {
			_ = poller.Close() // the error that matters is the one before
			return nil, err
		}
		s.SetOwner(door)
		g.servers[door] = s
	}
	return g, nil
}

func (g *party) close() { _ = g.poller.Close() }

// join has players come to each door of a subject.
func (g *party) join(a *arena, to [doors]netip.AddrPort, first, count int) (err error) {
	a.within(func() {
		for i := range count * doors {
			door := i % doors
			var s netio.Socket
			if s, err = g.poller.Dial(to[door], netio.SocketOptions{Local: a.player(64 + first*doors + i)}); err != nil {
				err = fmt.Errorf("player %d: %w", i, err)
				return
			}
			e := &end{conn: spoken[door].Dial(g.now, to[door], codec.Hello{Identity: uint64(first*doors+i) + 1}), socket: s,
				addr: to[door], player: &player{door: door, index: i, next: g.now.Add(g.every * time.Duration(i) / time.Duration(count*doors))}}
			s.SetOwner(e)
			g.ends = append(g.ends, e)
		}
	})
	return err
}

// Datagram implements netio.Handler.
func (g *party) Datagram(s netio.Socket, from netip.AddrPort, datagram []byte) {
	e, ok := s.Owner().(*end)
	if !ok {
		if e = g.guests[from]; e == nil {
			if e = g.welcome(s, from, datagram); e == nil {
				return
			}
			g.settle(e)
			return
		}
	}
	_ = e.conn.Receive(g.now, datagram) // what it drops is missed
	g.settle(e)
}

// Failed implements netio.Handler.
func (g *party) Failed(netio.Socket, error) {}

func (g *party) welcome(s netio.Socket, from netip.AddrPort, datagram []byte) *end {
	p := spoken[s.Owner().(int)]
	if !p.Sniff(datagram) {
		return nil
	}
	conn, reply, err := p.Accept(g.now, from, datagram, g.poller.Buffer())
	if err == nil && len(reply) > 0 {
		g.poller.Send(s, from, reply)
	}
	if conn == nil {
		return nil
	}
	e := &end{conn: conn, socket: s, addr: from}
	g.guests[from] = e
	g.ends = append(g.ends, e)
	return e
}

func (g *party) settle(e *end) {
	for event, ok := e.conn.Poll(); ok; event, ok = e.conn.Poll() {
		switch {
		case event.Kind == codec.Asked:
			e.conn.Admit(g.now, uint16(len(g.guests)))
		case event.Kind == codec.Connected:
			e.up = true
		case event.Kind == codec.Disconnected:
			e.gone = true
		case event.Kind == codec.Received && e.player == nil:
			_ = e.conn.Send(g.now, event.Message) // one that finds no room is missed
		case event.Kind == codec.Received:
			g.heard(e.player, event.Payload)
		}
	}
}

// A player's message is a byte that no protocol of packets has, whether it is reliable, and when it was due.
const messageSize = 30

func (g *party) heard(p *player, m []byte) {
	if len(m) < messageSize {
		return
	}
	reliable := m[1] & 1
	p.returned[reliable]++
	if due := g.begun.Add(time.Duration(binary.LittleEndian.Uint64(m[2:]))); reliable == 1 {
		_ = g.delays.RecordValue(max(1, g.now.Sub(due).Microseconds())) // what takes longer than the histogram knows is lost
	}
}

// say has a player say what is due.
func (g *party) say(e *end) {
	p := e.player
	if !g.sending || !e.up || e.gone || p.next.After(g.now) {
		return
	}
	var m [messageSize]byte
	m[0] = 0x86
	binary.LittleEndian.PutUint64(m[2:], uint64(p.next.Sub(g.begun)))
	if p.next = p.next.Add(g.every); p.next.Before(g.now) {
		p.next = g.now.Add(g.every) // what could not be said in time is not made up for
	}
	for reliable, mode := range [...]codec.Mode{codec.Unreliable, modeOf(p.door)} {
		m[1] = byte(reliable)
		if e.conn.Send(g.now, codec.Message{Payload: m[:], Mode: mode, ID: 7, HasID: p.door == doorRiptide}) == nil || reliable == 1 {
			p.sent[reliable]++
		}
	}
}

func modeOf(door int) codec.Mode {
	if door == doorRiptide {
		return codec.Reliable
	}
	return codec.ReliableOrdered
}

// play lets the game go on for so long, or until it is done.
func (g *party) play(d time.Duration, done func() bool) error {
	for end := time.Now().Add(d); g.now.Before(end) && (done == nil || !done()) && g.interruption.err() == nil; {
		if err := g.turn(end); err != nil {
			return err
		}
	}
	return g.interruption.err()
}

func (g *party) turn(until time.Time) error {
	for _, e := range g.ends {
		if t := e.conn.NextTimeout(); !t.IsZero() && t.Before(until) {
			until = t
		}
		if g.sending && e.player != nil && e.up && !e.gone && e.player.next.Before(until) {
			until = e.player.next
		}
	}
	if err := g.poller.Wait(until); err != nil {
		return err
	}
	g.now = time.Now()
	g.poller.Receive(g)
	for _, e := range g.ends {
		if t := e.conn.NextTimeout(); !t.IsZero() && !g.now.Before(t) {
			e.conn.Advance(g.now)
			g.settle(e)
		}
		if e.player != nil {
			g.say(e)
		}
		g.transmit(e)
	}
	g.poller.Flush()
	return nil
}

func (g *party) transmit(e *end) {
	for {
		b, ok := e.conn.Transmit(g.now, g.poller.Buffer())
		if !ok {
			return
		}
		if e.player != nil {
			g.tape.record(e, b)
		}
		g.poller.Send(e.socket, e.addr, b)
	}
}

// forget forgets what was counted so far.
func (g *party) forget() {
	g.delays.Reset()
	for _, e := range g.ends {
		if e.player != nil {
			e.player.sent, e.player.returned = [2]uint64{}, [2]uint64{}
			e.player.next = maxTime(e.player.next, g.now)
		}
	}
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// ready counts the players who are there.
func (g *party) ready() (n int) {
	for _, e := range g.ends {
		if e.player != nil && e.up && !e.gone {
			n++
		}
	}
	return n
}

// missing counts the reliable messages that have not come back.
func (g *party) missing() (n uint64) {
	for _, e := range g.ends {
		if p := e.player; p != nil {
			n += p.sent[1] - min(p.sent[1], p.returned[1])
		}
	}
	return n
}
