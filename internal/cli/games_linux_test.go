package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"tidegate/internal/demo"
	"tidegate/internal/testkit/await"
)

// gameClients is the number of players of each protocol.
const gameClients = 2

// games are game servers and players of each protocol that the demo can play, over UDP and TCP. Each protocol has a
// listener of its own. The last players are in relayed sessions.
type games struct {
	kinds    []gameKind
	players  int             // of each kind
	sessions map[string]bool // by ID, of all players
	stop     context.CancelFunc
	ended    sync.WaitGroup
	mu       sync.Mutex
	results  []demo.Result
}

// gameKind is the place of the players of one protocol.
type gameKind struct {
	pair             demo.Pair
	listener, server netip.AddrPort
	reach            netip.AddrPort // where the players connect
	isRelayed        bool
}

// newGames chooses the addresses of all games.
func newGames(t *testing.T) *games {
	t.Helper()
	g := &games{players: gameClients}
	names := append(demo.Protocols(), "raknet")
	ports := ownPorts(2 * len(names))
	for i, name := range names {
		pair, err := demo.NewPair(name, name)
		must(t, err)
		g.kinds = append(g.kinds, gameKind{pair, ports[2*i], ports[2*i+1], ports[2*i], i == len(names)-1})
	}
	return g
}

// ownPorts returns addresses on loopback that no other process uses: the IP address is made of this process's number,
// and the kernel gives the ports to no socket by itself.
func ownPorts(n int) (all []netip.AddrPort) {
	pid := os.Getpid()
	ip := netip.AddrFrom4([4]byte{127, 64 | byte(pid>>16)&63, byte(pid >> 8), byte(pid)})
	for range n {
		all = append(all, netip.AddrPortFrom(ip, uint16(20_000+ownPort.Add(1))))
	}
	return all
}

// ownPort is the number of ports that ownPorts has given away.
var ownPort atomic.Int32

// configuration returns the listeners, routes and upstreams. As in the demo, sessions live through a busy machine.
func (g *games) configuration() string {
	var b strings.Builder
	for i, k := range g.kinds {
		starter, number := starterFor(k.pair), fmt.Sprint(i)
		write := starter.Needed
		if k.isRelayed {
			write = starter.Relay
		}
		b.WriteString(strings.NewReplacer(`"players"`, `"players-`+number+`"`, `"game"`, `"game-`+number+`"`).
			Replace(write(k.listener, k.server)))
	}
	b.WriteString("[riptide]\ntimeout = \"15s\"\nquality_disconnect = false\n[rudp]\nrate = 30\n")
	return b.String()
}

// begin lets all players join and play.
func (g *games) begin(t *testing.T, p *process) {
	t.Helper()
	var playing context.Context
	playing, g.stop = context.WithCancel(context.Background())
	t.Cleanup(g.stop)
	t.Cleanup(func() {
		if t.Failed() {
			p.tellLog(t)
		}
	})
	for _, k := range g.kinds {
		game, err := demo.NewGame(demo.GameOptions{
			Pair: k.pair, Servers: []netip.AddrPort{k.server}, Proxy: k.reach, Clients: g.players,
		})
		must(t, err)
		g.ended.Go(func() {
			defer game.Stop()
			result, err := game.Play(playing)
			if err != nil {
				t.Errorf("%v: %v", k.pair, err)
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			g.results = append(g.results, result)
		})
	}
	await.Nil(t, func() error {
		heard, err := g.heard(t, p)
		if want := g.players * len(g.kinds); err == nil && len(heard) != want {
			err = fmt.Errorf("%d players have joined, want %d", len(heard), want)
		}
		g.sessions = make(map[string]bool)
		for id := range heard {
			g.sessions[id] = true
		}
		return err
	})
}

// heard returns the number of messages that have come from each player's server, by the session's ID.
func (g *games) heard(t *testing.T, p *process) (map[string]uint64, error) {
	t.Helper()
	code, stdout, stderr := separately(t, "sessions", "list", "--state", "established", "--json", "-c", p.file)
	if code != 0 {
		return nil, errors.New(stderr) // no admin server answers for a moment
	}
	heard := make(map[string]uint64)
	for line := range strings.Lines(stdout) {
		var s struct {
			ID, Listener, Mode string
			Server             struct{ Messages uint64 }
		}
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			return nil, err
		}
		if s.Mode == "relay" {
			s.Server.Messages = uncounted
		}
		if strings.HasPrefix(s.Listener, "players-") {
			heard[s.ID] = s.Server.Messages
		}
	}
	return heard, nil
}

// uncounted stands for the messages of a relayed session: the kernel may forward them, and tell their number late.
const uncounted = math.MaxUint64

// goOn waits until each player's server has answered again, in the same session.
func (g *games) goOn(t *testing.T, p *process) {
	t.Helper()
	var before map[string]uint64
	await.Nil(t, func() (err error) {
		before, err = g.heard(t, p)
		return err
	})
	await.Nil(t, func() error {
		now, err := g.heard(t, p)
		for id := range g.sessions {
			if _, stays := now[id]; err == nil && !stays {
				err = fmt.Errorf("session %s is gone", id)
			} else if err == nil && now[id] != uncounted && now[id] < before[id]+5 {
				err = fmt.Errorf("the server of session %s has sent %d messages, after %d", id, now[id], before[id])
			}
		}
		return err
	})
}

// end ends all games. No session may have ended, and each reliable message must have come back once. Others have no
// promise.
func (g *games) end(t *testing.T) {
	t.Helper()
	g.stop()
	g.ended.Wait()
	for _, r := range g.results {
		t.Logf("%v: %d and %d of %d messages came back", r.Pair, r.Reliable.Returned, r.Unreliable.Returned,
			r.Unreliable.Sent)
		if r.Connected != g.players || r.Lost > 0 || r.Changed > 0 || r.Reliable.Missing > 0 ||
			r.Reliable.Duplicated > 0 {
			t.Errorf("%v: %s", r.Pair, r.Summary())
		}
	}
}
