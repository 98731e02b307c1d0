package demo

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"tidegate/internal/lossylink"
)

// maxServed bounds the clients of a Game: as many as the limits for one address admit by default.
const maxServed = 20

// Game is the game servers and the clients of a demo whose proxy the caller runs. It plays for as long as the caller
// wants. A client that loses its connection joins again.
type Game struct {
	pair    Pair
	servers []server
	link    *lossylink.Link // nil without loss and delay
	clients *clients
}

// GameOptions configure a Game.
type GameOptions struct {
	Pair    Pair
	Servers []netip.AddrPort // addresses of the game servers
	Proxy   netip.AddrPort   // where the clients join
	Clients int              // 1 to 20
	Loss    float64          // as in Options
	Delay   time.Duration    // as in Options
}

// NewGame starts the game servers. The clients join in Play.
func NewGame(o GameOptions) (*Game, error) {
	if o.Clients < 1 || o.Clients > maxServed {
		return nil, fmt.Errorf("%d clients: want 1 to %d", o.Clients, maxServed)
	}
	g := &Game{pair: o.Pair}
	if err := g.start(&o); err != nil {
		g.Stop()
		return nil, err
	}
	return g, nil
}

func (g *Game) start(o *GameOptions) error {
	for _, at := range o.Servers {
		s, err := startServer(o.Pair, at, 0)
		if err != nil {
			return fmt.Errorf("start the game server on %s: %w", at, err)
		}
		if codecs, ok := s.(*codecServer); ok {
			codecs.arrived = nil // a long game would fill the memory
		}
		g.servers = append(g.servers, s)
	}
	var err error
	if g.link, err = startLink(o.Proxy, 1<<10, o.Loss, o.Delay); err != nil {
		return err
	}
	to := o.Proxy
	if g.link != nil {
		to = g.link.Addr()
	}
	g.clients, err = newClients(o.Pair, o.Clients, defaultRate, to)
	return err
}

// Servers returns the addresses of the game servers.
func (g *Game) Servers() []netip.AddrPort {
	all := make([]netip.AddrPort, len(g.servers))
	for i, s := range g.servers {
		all[i] = s.addr()
	}
	return all
}

// Play plays until ctx is done. It returns the counts of all clients.
func (g *Game) Play(ctx context.Context) (Result, error) {
	g.clients.rejoin = true
	err := g.clients.play(ctx, 0)
	g.clients.rejoin = false
	if leaving := g.clients.leave(); err == nil {
		err = leaving
	}
	result := g.clients.result()
	result.Pair = g.pair
	return result, err
}

// Stop stops the game servers, the link, and clients that have not played.
func (g *Game) Stop() {
	if g.clients != nil {
		_ = g.clients.Close() // nothing can be lost any more
	}
	if g.link != nil {
		g.link.Stop()
	}
	for _, s := range g.servers {
		s.stop()
	}
}

// Counts is a short summary without a verdict: an operator may have ended sessions and stopped servers.
func (r *Result) Counts() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-12s %10s %10s\n", "messages", "sent", "returned")
	fmt.Fprintf(&b, "%-12s %10d %10d\n", "reliable", r.Reliable.Sent, r.Reliable.Returned)
	fmt.Fprintf(&b, "%-12s %10d %10d\n", "unreliable", r.Unreliable.Sent, r.Unreliable.Returned)
	fmt.Fprintf(&b, "%-12s %d, after which the client joined again\n", "lost", r.Lost)
	return b.String()
}
