package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"tidegate/codec"
	"tidegate/codec/raknet"
	"tidegate/codec/riptide"
	"tidegate/internal/netio"
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

// player is what one player has said and heard.
type player struct {
	door           int
	next           time.Time
	sent, returned [2]uint64 // unreliable and reliable messages
	up, gone       bool
}

// party is players and game servers in one loop, each player saying one reliable and one unreliable message a turn, which its
// server says back.
type party struct {
	*crowd
	servers [doors]*house
	guests  uint16
	players []*entry
	begun   time.Time
	since   time.Time // what was due earlier does not count
	every   time.Duration
	sending bool
	delays  *hdrhistogram.Histogram // of reliable messages, there and back
	late    *hdrhistogram.Histogram // how much later than they should players said something
	tape    tape

	interruption interruption
}

func newParty(rate int) (*party, error) {
	g := &party{every: time.Second / time.Duration(rate), delays: newDelays(), late: newDelays()}
	var err error
	if g.crowd, err = newCrowd(g.heed); err != nil {
		return nil, err
	}
	g.begun, g.overhear = g.now, g.tape.record
	for door := range g.servers {
		if g.servers[door], err = g.open(spoken[door], netio.SocketOptions{}); err != nil {
			g.close()
			return nil, err
		}
	}
	return g, nil
}

// join has players come to each door of a subject.
func (g *party) join(a *arena, to [doors]netip.AddrPort, first, count int) (err error) {
	a.within(func() {
		for i := range count * doors {
			var e *entry
			door, index := i%doors, first*doors+i
			if e, err = g.enter(a, to[door], door, index); err != nil {
				err = fmt.Errorf("player %d: %w", i, err)
				return
			}
			e.Value.player = &player{door: door, next: g.now.Add(g.every * time.Duration(i) / time.Duration(count*doors))}
			g.players = append(g.players, e)
		}
	})
	return err
}

func (g *party) enter(a *arena, to netip.AddrPort, door, index int) (*entry, error) {
	s, err := g.poller.Dial(to, netio.SocketOptions{Local: a.player(64 + index)})
	if err != nil {
		return nil, err
	}
	return g.crowd.join(spoken[door], s, to, uint64(index)+1)
}

func (g *party) heed(e *entry, ev *codec.Event) {
	p := e.Value.player
	switch {
	case ev.Kind == codec.Asked:
		g.guests++
		e.Value.conn.Admit(g.now, g.guests)
	case p == nil && ev.Kind == codec.Received:
		_ = e.Value.conn.Send(g.now, ev.Message) // one that finds no room is missed
	case p == nil:
	case ev.Kind == codec.Connected:
		p.up = true
	case ev.Kind == codec.Disconnected:
		p.gone = true
	case ev.Kind == codec.Received:
		g.heard(p, ev.Payload)
	}
}

// A player's message is a byte that no protocol of packets has, whether it is reliable, and when it was due.
const messageSize = 30

func (g *party) heard(p *player, m []byte) {
	if len(m) < messageSize {
		return
	}
	due := g.begun.Add(time.Duration(binary.LittleEndian.Uint64(m[2:])))
	if due.Before(g.since) {
		return
	}
	reliable := m[1] & 1
	p.returned[reliable]++
	if reliable == 1 {
		record(g.delays, g.now.Sub(due))
	}
}

// speaks reports whether a player says something when it is due.
func (g *party) speaks(p *player) bool { return g.sending && p.up && !p.gone }

// say has a player say what is due.
func (g *party) say(e *entry) {
	p := e.Value.player
	var m [messageSize]byte
	m[0] = 0x86
	binary.LittleEndian.PutUint64(m[2:], uint64(p.next.Sub(g.begun)))
	record(g.late, g.now.Sub(p.next))
	p.next = p.next.Add(g.every)
	g.catchUp(p)
	for reliable, mode := range [...]codec.Mode{codec.Unreliable, modeOf(p.door)} {
		m[1] = byte(reliable)
		message := codec.Message{Payload: m[:], Mode: mode, ID: 7, HasID: p.door == doorRiptide}
		if e.Value.conn.Send(g.now, message) == nil || reliable == 1 {
			p.sent[reliable]++
		}
	}
	g.mark(e)
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

// turn waits until a time for what comes, and has players say what is due by then.
func (g *party) turn(until time.Time) error {
	for _, e := range g.players {
		if p := e.Value.player; g.speaks(p) && p.next.Before(until) {
			until = p.next
		}
	}
	if err := g.crowd.turn(until); err != nil {
		return err
	}
	for _, e := range g.players {
		if p := e.Value.player; g.speaks(p) && !p.next.After(g.now) {
			g.say(e)
		}
	}
	return nil
}

// meanwhile does something that takes its time beside the game, which goes on.
func (g *party) meanwhile(do func() error) (result error) {
	done := make(chan error, 1)
	go func() {
		done <- do()
		g.poller.Wake()
	}()
	over := false
	err := g.play(time.Minute, func() bool {
		select {
		case result = <-done:
			over = true
		default:
		}
		return over
	})
	if !over {
		result = <-done
	}
	return errors.Join(err, result)
}

// forget forgets what was counted so far.
func (g *party) forget() {
	g.since = g.now
	g.delays.Reset()
	g.late.Reset()
	for _, e := range g.players {
		p := e.Value.player
		p.sent, p.returned = [2]uint64{}, [2]uint64{}
		g.catchUp(p)
	}
}

// catchUp has a player leave out what could not be said in time, and keep to the timetable, in which no two speak at once.
func (g *party) catchUp(p *player) {
	if late := g.now.Sub(p.next); late > 0 {
		p.next = p.next.Add((late + g.every - 1) / g.every * g.every)
	}
}

// ready counts the players who are there.
func (g *party) ready() (n int) {
	for _, e := range g.players {
		if p := e.Value.player; p.up && !p.gone {
			n++
		}
	}
	return n
}

// missing counts the reliable messages that have not come back.
func (g *party) missing() (n uint64) {
	for _, e := range g.players {
		p := e.Value.player
		n += p.sent[1] - min(p.sent[1], p.returned[1])
	}
	return n
}

// record adds a time to a histogram. One that is longer than the histogram knows is missing.
func record(h *hdrhistogram.Histogram, d time.Duration) { _ = h.RecordValue(max(1, d.Microseconds())) }
