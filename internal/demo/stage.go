package demo

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/netip"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"tidegate/internal/admin"
	"tidegate/internal/each"
	"tidegate/internal/lossylink"
	"tidegate/internal/netio"
	"tidegate/internal/top"
	"tidegate/internal/words"
	"tidegate/proxy"
	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
)

const (
	// goodbyeTime is the time for the proxy to receive the clients' goodbyes before it stops. It is a little more than
	// the longest goodbye to the server.
	goodbyeTime     = 2500 * time.Millisecond
	goodbyeInterval = 20 * time.Millisecond
	// badLoss is the loss at which protocols lose connections. A Riptide server, for example, ends a connection after 5 s
	// without a heartbeat, and clients send one each second.
	badLoss = 0.2
	// maxPaths bounds the connections over the link, first ones and later ones.
	maxPaths = 1 << 10
)

var loopback = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0) // with any free port

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
	Clients int
	Loss    float64       // as in Options
	Delay   time.Duration // as in Options
}

// NewGame starts the game servers. The clients join in Play.
func NewGame(o GameOptions) (*Game, error) {
	g := &Game{pair: o.Pair}
	for _, at := range o.Servers {
		if err := g.serve(at, false); err != nil { // a long game's arrivals would fill the memory
			g.Stop()
			return nil, err
		}
	}
	if err := g.enter(o.Proxy, o.Clients, o.Loss, o.Delay); err != nil {
		g.Stop()
		return nil, err
	}
	g.clients.rejoin = true
	return g, nil
}

// serve starts a game server, which may record the messages that arrive.
func (g *Game) serve(at netip.AddrPort, records bool) error {
	start := startCodecServer
	if g.pair.To() == goRakNet {
		start = startGameServer
	}
	s, err := start(g.pair, at, records)
	if err != nil {
		return fmt.Errorf("start the game server on %s: %w", at, err)
	}
	g.servers = append(g.servers, s)
	return nil
}

// enter makes the clients of a proxy. A link with a loss and a delay leads there, unless both are zero.
func (g *Game) enter(to netip.AddrPort, clients int, loss float64, delay time.Duration) (err error) {
	if loss > 0 || delay > 0 {
		g.link, err = lossylink.StartAt(loopback, to, maxPaths,
			lossylink.Loss{ToServer: loss, ToClients: loss, Delay: delay})
		if err != nil {
			return fmt.Errorf("start the link: %w", err)
		}
		to = g.link.Addr()
	}
	if g.clients, err = newClients(g.pair, clients, to); err != nil {
		return fmt.Errorf("make the clients: %w", err)
	}
	return nil
}

// Servers returns the addresses of the game servers.
func (g *Game) Servers() []netip.AddrPort {
	return each.Of(g.servers, server.addr)
}

// Play plays until ctx is done. It returns the counts of all clients.
func (g *Game) Play(ctx context.Context) (Result, error) {
	err := g.clients.play(ctx, 0)
	g.clients.rejoin = false
	if leaving := g.clients.leave(); err == nil {
		err = leaving
	}
	return g.clients.result(), err
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

// stage is all parts of a demo: a game and its proxy.
type stage struct {
	Game
	proxy *proxy.Server
	end   func() error // stops the proxy with goodbyes
}

// setUp starts all parts, or none.
func setUp(o *Options) (*stage, error) {
	s := &stage{Game: Game{pair: o.Pair}}
	if err := s.start(o); err != nil {
		s.tearDown()
		return nil, err
	}
	return s, nil
}

// start starts the parts, from the game server to the clients.
func (s *stage) start(o *Options) error {
	if err := s.serve(loopback, o.Pair.Promise() == AtLeastOnce); err != nil {
		return err
	}
	settings, err := o.Settings(loopback, s.servers[0].addr())
	if err != nil {
		return fmt.Errorf("make the proxy's settings: %w", err)
	}
	if err := s.startProxy(settings, o.Log); err != nil {
		return fmt.Errorf("start the proxy: %w", err)
	}
	return s.enter(s.proxy.Addrs()[0], o.Clients, o.Loss, o.Delay)
}

func (s *stage) startProxy(settings *relay.Settings, log zerolog.Logger) (err error) {
	if s.proxy, err = proxy.Listen(settings, proxy.Options{Loops: 1, IO: netio.Options{}, Log: log}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.proxy.Run(ctx) }()
	s.end = func() error {
		cancel()
		return <-ended
	}
	return nil
}

// tearDown stops the parts of an incomplete stage.
func (s *stage) tearDown() {
	if s.end != nil {
		_ = s.end() // the earlier error matters more
	}
	s.Stop()
}

// introduction describes the parts and their addresses, what the columns mean, and what the demo does next.
func (s *stage) introduction(o *Options) string {
	serverOn, link := "our own", ""
	if s.pair.To() == goRakNet {
		serverOn = "go-raknet"
	}
	if s.link != nil {
		var does []string
		if o.Loss > 0 {
			does = append(does, fmt.Sprintf("loses %.3g %%", 100*o.Loss))
		}
		if o.Delay > 0 {
			does = append(does, fmt.Sprintf("takes %s", o.Delay))
		}
		link = fmt.Sprintf(" over a link on %s that %s each way", s.link.Addr(), strings.Join(does, " and "))
	}
	text := fmt.Sprintf("Tidegate on %s in front of a %s game server (%s) on %s, which echoes messages.\n",
		s.proxy.Addrs()[0], s.pair.To(), serverOn, s.servers[0].addr()) +
		fmt.Sprintf("%s play on it%s.\n", words.Count(o.Clients, s.pair.From()+" client"), link) +
		"Round trips are the protocols' own measures; Riptide's are whole milliseconds.\n"
	if s.pair.To() == goRakNet {
		text += "This server waits up to 100 ms before it acknowledges an idle player: no cause for concern.\n"
	}
	// A busy machine delays acknowledgements, so there are duplicates without a loss, too.
	text += "Receivers drop duplicates and late datagrams: that is normal on a busy machine or a link with losses.\n"
	if o.Loss > badLoss {
		text += "Protocols end connections that lose so many heartbeats in a row: expect some to end.\n"
	}
	return text + fmt.Sprintf("The clients join now, play for %s, and say goodbye.\n\n", o.For)
}

// play runs the clients, and shows the proxy by the figures that operators have.
func (s *stage) play(ctx context.Context, o *Options) error {
	watched, over := context.WithCancel(ctx)
	defer over()
	played := make(chan error, 1)
	go func() {
		defer over()
		played <- s.clients.play(ctx, o.For)
	}()
	began := time.Now()
	_, _ = io.WriteString(o.Out, top.Heading)
	for l := range admin.Watch(watched, s.proxy) {
		if l.Over > 0 {
			_, _ = io.WriteString(o.Out, top.Line(l, began))
		}
	}
	return <-played
}

// finish ends all parts, from the clients to the game server, and makes the result.
func (s *stage) finish() (Result, error) {
	last := &relay.ListSessions{Limit: math.MaxInt}
	_ = s.proxy.Ask(context.Background(), last) // a proxy that has ended has no sessions
	err := s.clients.leave()
	heard := s.awaitGoodbyes()
	result := s.clients.result()
	result.Heard = heard
	result.ProxyError = s.end()
	if s.link != nil {
		result.Link = s.link.Stop()
	}
	if arrived := s.servers[0].stop(); arrived != nil {
		arrived.correct(&result.Reliable)
	}
	for i := range last.Sessions {
		result.Resent.ToClients += last.Sessions[i].ClientStats.Resent
		result.Resent.ToServer += last.Sessions[i].UpstreamStats.Resent
	}
	return result, err
}

// awaitGoodbyes waits until the proxy has received every client's goodbye and passed it on. It returns the number of
// received goodbyes. A goodbye that the link lost never comes: most protocols send it once, and R-Type clients never
// do.
func (s *stage) awaitGoodbyes() int {
	deadline := time.Now()
	if s.pair.saysGoodbye() {
		deadline = deadline.Add(goodbyeTime)
	}
	for {
		now, err := s.proxy.Figures(context.Background())
		if err != nil || now.Tables[stats.TableSessions] == 0 || time.Now().After(deadline) {
			return int(now.Counters.Closed)
		}
		time.Sleep(goodbyeInterval)
	}
}
