//go:build interop

package interop_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"tidegate/internal/testkit/netlab"
)

// Ways to play a situation: without Tidegate, or through it with the disturbance on one side of it or of itself.
const (
	direct     = "direct"
	playersLeg = "players' leg"
	serversLeg = "server's leg"
	gateItself = "Tidegate"
)

// stage is one play of a situation: its peers, the way between them, and what happened.
type stage struct {
	t      *testing.T
	row    *situation
	way    string
	dir    string
	admin  string // Tidegate's admin socket
	door   string // where players connect, HOST:PORT
	leg    *leg   // that is disturbed; nil: none is
	gate   *proxy
	lab    *lab
	zone   *zone // that names the server; nil: none
	server *peer
	at     string // of the server, HOST:PORT
	port   string // of the player itself, if it keeps one; 0: any
	quit   chan struct{}
	hushed func() // ends the talk

	mu      sync.Mutex
	players []*player
	next    int            // number of the next message
	sent    map[int]letter // by number
	times   map[string]time.Duration
	figures map[string]float64
	heard   map[int]int // times that the server heard a number
	lateIn  int         // messages out of order
	said    time.Time   // the first burst
	last    time.Time   // the last arrival
	told    map[string]bool
	leaving time.Time // of a player, as others are told
	missed  int       // counted by a step itself
	joined  int       // at the server
	left    int
	leftWhy int // what the server was told last
}

// letter is a message that was sent.
type letter struct {
	from int // player, or toAll
	size int
}

// toAll marks a message of the server to each player.
const toAll = -1

// player is a player as its events show it.
type player struct {
	peer   *peer
	number uint16 // in its process
	began  time.Time
	up     bool
	was    bool        // in at some time
	ended  bool        // refused or disconnected since it began
	comes  bool        // it leaves and comes back
	heard  map[int]int // times that it heard a number
	newest map[bool]int
}

// lab is a near and a far network. Players and Tidegate are in the near one, the server in the far one, or in both.
type lab struct{ near, far *netlab.Namespace }

// newStage starts the server, and Tidegate unless the way is direct.
func newStage(t *testing.T, row *situation, way string) *stage {
	s := &stage{t: t, row: row, way: way, quit: make(chan struct{}), sent: make(map[int]letter), hushed: func() {},
		times: make(map[string]time.Duration), figures: make(map[string]float64), heard: make(map[int]int),
		told: make(map[string]bool), dir: t.TempDir()}
	t.Cleanup(func() { s.hushed(); close(s.quit) })
	s.at, s.port = at(freePort(t)), "0"
	if row.samePort {
		s.port = freePort(t)
	}
	if row.lab != nil {
		s.lab, s.at = row.lab(t), labServer+":"+freePort(t)
	}
	s.startServer()
	door := s.at
	legged := row.lab == nil && !row.still
	if way == direct {
		if legged {
			s.leg = newLeg(t, portOf(t, door), row.path)
			door = at(s.leg.port())
		}
		s.door = door
		return s
	}
	if legged && way == serversLeg {
		s.leg = newLeg(t, portOf(t, door), climate{})
		door = at(s.leg.port())
	}
	s.openGate(door)
	if legged && (way == playersLeg || row.path != climate{}) {
		front := newLeg(t, portOf(t, s.door), row.path)
		s.door = at(front.port())
		if way == playersLeg {
			s.leg = front
		}
	}
	return s
}

func (s *stage) startServer() {
	if s.row.kit.server == nil {
		return
	}
	s.server = s.row.kit.server(s, s.at)
	listening := make(chan struct{})
	s.watch(s.server, func(e event) {
		if e.Event == "listening" {
			close(listening)
		}
	})
	select {
	case <-listening:
	case <-time.After(3 * patience):
		s.t.Fatalf("%s does not listen", s.server.name)
	}
}

// openGate starts Tidegate, as it is shipped, in front of a server.
func (s *stage) openGate(server string) {
	k, enter := s.row.kit, []string(nil)
	if s.lab != nil {
		enter = s.lab.near.Enter()
	}
	found := fmt.Sprintf("servers = [%q]", server)
	if s.row.discovered {
		s.zone = newZone(s.t)
		found = fmt.Sprintf("discover = [\"game.test:%s\"]\nresolver = %q", portOf(s.t, server), s.zone.at)
	}
	dir, err := os.MkdirTemp("", "gate") // a socket's name is short
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s.admin = filepath.Join(dir, "admin")
	var address string
	text := fmt.Sprintf(besideConfiguration, cmp.Or(s.row.players, k.protocol), s.row.route, k.protocol, found,
		s.row.upstream, s.row.more, s.admin)
	s.gate, address = openTidegate(s.t, enter, text)
	s.door = address
}

const besideConfiguration = `
[[listener]]
name = "public"
address = "127.0.0.1:0"
protocols = [%q]
route = "arena"
[[route]]
name = "arena"
upstream = "arena"
%s
[[upstream]]
name = "arena"
protocol = %q
%s
%s
%s
[log]
format = "json"
[admin]
listen = "unix:%s"
`

// opening runs f, which opens sockets, in the network of the server or of the players.
func (s *stage) opening(server bool, f func()) {
	switch {
	case s.lab == nil:
		f()
	case server:
		s.lab.far.Do(f)
	default:
		s.lab.near.Do(f)
	}
}

// inside returns a runtime in the network of the server or of the players.
func (s *stage) inside(in *runtime, server bool) *runtime {
	if s.lab == nil {
		return in
	}
	network := s.lab.near
	if server {
		network = s.lab.far
	}
	moved := *in
	moved.line = func(dir string) (env, line []string) {
		env, line = in.line(dir)
		return env, append(network.Enter(), line...)
	}
	return &moved
}

// watch takes a peer's events as they come.
func (s *stage) watch(p *peer, take func(e event)) {
	go func() {
		for {
			select {
			case e := <-p.events:
				now := time.Now()
				s.mu.Lock()
				if p == s.server {
					s.serverSays(now, e)
				}
				take(e)
				s.mu.Unlock()
			case <-s.quit:
				return
			}
		}
	}()
}

// watchPlayers takes the events of a process with some players, from one on.
func (s *stage) watchPlayers(p *peer, first, count int) {
	s.mu.Lock()
	for len(s.players) < first+count {
		s.players = append(s.players, new(player))
	}
	for i := range count {
		was := s.players[first+i]
		s.players[first+i] = &player{peer: p, number: uint16(i), was: was.was, comes: was.comes,
			began: was.began, heard: cmpMap(was.heard), newest: map[bool]int{}}
	}
	s.mu.Unlock()
	s.watch(p, func(e event) {
		if int(e.Client) < count && s.players[first+int(e.Client)].peer == p {
			s.playerSays(time.Now(), s.players[first+int(e.Client)], e)
		}
	})
}
