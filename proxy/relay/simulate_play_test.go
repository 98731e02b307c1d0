package relay

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime/debug"
	"testing"
	"time"

	"tidegate/codec"
	"tidegate/codec/codectest/simnet"
)

const (
	settleTime   = 20 * time.Second // until all reliable messages have arrived after the last act
	goodbyeTime  = 90 * time.Second // until all sessions have ended after the drain
	overheardMax = 32               // datagrams that a forger knows of each session
	openingMax   = 6                // first datagrams of a session that strangers know
)

// performance is a story on its stage: players, a proxy and servers in virtual time, with the books of all messages.
type performance struct {
	*simnet.Net
	story    *story
	judge    *judge
	rng      *rand.Rand
	proxy    *process
	scenes   []*scene
	tcpGames []*tcpGame
	seats    []*seat // in the order of joining; a player that joins again gets another
	playing  []*seat // by player; nil: none
	hosts    []int   // the players' addresses
	lastHost int
	owners   map[*peer]*seat
	heard    map[netip.AddrPort][][]byte
	opened   map[netip.AddrPort][][]byte
	replaced bool                    // the Relays are other ones
	arrived  int                     // sessions that were taken in beside the limits
	guessed  map[netip.AddrPort]bool // forged clients that have guessed a weak proof
	admitted uint16
	unlucky  int // sessions that ended by chance, as they may in loss
	conditions
}

// seat is one session of a player, with its messages.
type seat struct {
	*player
	who       int
	number    int
	scene     *scene
	dialogue  *dialogue
	joined    time.Time
	connected bool
	over      bool
	away      bool // its end is expected
	lost      bool // it is silent, and hears nothing
	suspect   bool // it may hear what no game wrote, because a forger or the player itself altered datagrams
	up, down  voice
	edge      *edgePlayer // of a NetherNet client; else nil
	rebinds   int         // addresses after the first ones
	excuses
}

// judge collects the faults of a performance. The first one that is fatal ends it.
type judge struct {
	testing.TB
	fault string
}

type verdictGiven struct{}

func (j *judge) Helper()                   {}
func (j *judge) Logf(string, ...any)       {}
func (j *judge) Failed() bool              { return false }
func (j *judge) Cleanup(func())            {}
func (j *judge) Fatalf(f string, a ...any) { j.Errorf(f, a...) }
func (j *judge) Fatal(a ...any)            { j.Errorf("%s", fmt.Sprint(a...)) }
func (j *judge) Errorf(f string, a ...any) {
	j.fault = fmt.Sprintf(f, a...)
	panic(verdictGiven{})
}

// play plays the story. It returns how it failed, or nothing, and the virtual time that it took.
func (s *story) play(t testing.TB) (fault string, lasted time.Duration) {
	p := s.stage(t)
	defer func() {
		if caught := recover(); caught != nil {
			if _, ok := caught.(verdictGiven); !ok {
				p.judge.fault = fmt.Sprintf("panic: %v\n%s", caught, debug.Stack())
			}
			fault = fmt.Sprintf("after %v: %s", p.Elapsed().Round(time.Millisecond), p.judge.fault)
		}
		lasted, s.unlucky = p.Elapsed(), p.unlucky
	}()
	for _, a := range s.acts {
		p.Run(a.after)
		p.act(a)
		p.excuse()
		p.checkBounds()
	}
	p.finish()
	return
}

// serverEvent lets a server admit every client, unless it refuses them, and notes what it hears.
func (p *performance) serverEvent(now time.Time, sc *scene, i int, conn *peer, ev *codec.Event) {
	switch ev.Kind {
	case codec.Asked:
		if now.Before(sc.refusing[i]) {
			conn.conn.Close(now, codec.Goodbye{Reason: codec.Rejected})
			return
		}
		p.admitted++
		conn.conn.Admit(now, 100+p.admitted)
		if sc.servers.Spec().Closed { // its client counts as connected once it has heard a message
			p.repeat(5, conn, func() { _ = conn.conn.Send(p.Now(), codec.Message{Payload: []byte{0, 0, 0, 0, 1}}) })
		}
	case codec.Connected:
		if s := p.ownerOf(conn); s != nil && s.dialogue.clients.Spec().Closed && !sc.servers.Spec().Closed {
			p.repeat(5, conn, func() {
				for _, payload := range gameHead() {
					_ = conn.conn.Send(p.Now(), s.dialogue.wrap(false, codec.Message{Payload: payload, Mode: codec.Unreliable}))
				}
			})
		}
	case codec.Received:
		s := p.ownerOf(conn)
		if s == nil {
			return
		}
		err := s.dialogue.read(true, ev.Message, func(m mark) error {
			if !m.up || m.owner != s.number {
				return fmt.Errorf("the server heard %+v in the session of player %d", m, s.number)
			}
			return s.up.hear(m, s.dialogue.ordered && !s.leaky && !s.excused)
		})
		if err != nil {
			s.up.alter(ev.Payload)
		}
		if err != nil && !s.suspect {
			p.judge.Errorf("%v", err)
		}
	case codec.Disconnected:
		p.abandon(conn, ev.Reason)
		p.checkServersReason(conn, ev.Reason)
	}
}

// repeat lets a server of R-Type, or of its clients, tell its entities each second, as that game does all the time.
func (p *performance) repeat(times int, conn *peer, tell func()) {
	if times == 0 || conn.gone() {
		return
	}
	tell()
	p.After(time.Second, func() { p.repeat(times-1, conn, tell) })
}

// ownerOf returns the session of a server's connection. It is nil if the session had left when the server heard of it.
func (p *performance) ownerOf(conn *peer) *seat {
	if s, known := p.owners[conn]; known {
		return s
	}
	p.proxy.all(func(e *Entry) {
		if p.serverEnd(e) != conn {
			return
		}
		for _, s := range p.seats {
			if p.entryOf(s) == e {
				p.owners[conn] = s
			}
		}
	})
	return p.owners[conn]
}

// serverEnd returns the server's connection of a session, or nil.
func (p *performance) serverEnd(e *Entry) *peer {
	if e == nil || e.Value.socket == nil {
		return nil
	}
	for _, sc := range p.scenes {
		for _, g := range sc.games {
			if g.addr == e.Value.socket.Peer() {
				return g.byAddr[e.Value.socket.Addr()]
			}
		}
	}
	return nil
}

func (p *performance) entryOf(s *seat) *Entry {
	if s.edge != nil {
		return p.proxy.entryOfEdge(s)
	}
	return p.proxy.entryOf(s.addr, s.at)
}

func (p *performance) playerEvent(s *seat, ev *codec.Event) {
	switch ev.Kind {
	case codec.Connected:
		s.connected = true
	case codec.Disconnected:
		if s.over {
			p.judge.Errorf("player %d was told of its end again: %v", s.number, ev.Reason)
		}
		s.over = true
		s.excused = s.excused || s.shaky && !p.isSettled(s) || s.rival && ev.Reason == codec.AlreadyConnected ||
			s.suspect && p.proxy.metTooLarge()
		switch {
		case s.away || s.excused:
		case s.risky:
			s.excused = true
			p.unlucky++
		default:
			p.judge.Errorf("the session of player %d ended: %v", s.number, ev.Reason)
		}
		p.checkReason(s, ev.Reason)
	case codec.Received:
		err := s.dialogue.read(false, ev.Message, func(m mark) error {
			if m.up || m.owner != s.number {
				return fmt.Errorf("player %d heard %+v", s.number, m)
			}
			return s.down.hear(m, s.dialogue.ordered && !s.leaky && !s.excused)
		})
		if err != nil {
			s.down.alter(ev.Payload)
		}
		if err != nil && !s.suspect {
			p.judge.Errorf("player %d: %v", s.number, err)
		}
	}
}
