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
)

var loopback = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0) // with any free port

// stage is all parts of a demo.
type stage struct {
	pair    Pair
	server  server
	proxy   *running
	link    *lossylink.Link // nil without loss
	clients *clients
}

// server is a game server that returns messages.
type server interface {
	addr() netip.AddrPort
	// stop closes the socket and returns the arrivals that the server recorded, if any.
	stop() arrivals
}

// setUp starts all parts, or none.
func setUp(o *Options) (*stage, error) {
	s := &stage{pair: o.Pair}
	if err := s.start(o); err != nil {
		s.tearDown()
		return nil, err
	}
	return s, nil
}

// start starts the parts, from the game server to the clients.
func (s *stage) start(o *Options) (err error) {
	if s.server, err = startServer(o.Pair, loopback, o.Clients); err != nil {
		return fmt.Errorf("start the game server: %w", err)
	}
	settings, err := o.Settings(loopback, s.server.addr())
	if err != nil {
		return fmt.Errorf("make the proxy's settings: %w", err)
	}
	if s.proxy, err = startProxy(settings, o.Log); err != nil {
		return fmt.Errorf("start the proxy: %w", err)
	}
	to := s.proxy.addr()
	if s.link, err = startLink(to, o.Clients, o.Loss, o.Delay); err != nil {
		return err
	}
	if s.link != nil {
		to = s.link.Addr()
	}
	if s.clients, err = newClients(o.Pair, o.Clients, o.Rate, to); err != nil {
		return fmt.Errorf("make the clients: %w", err)
	}
	return nil
}

// startLink starts a link to the proxy with a loss and a delay. Without both it returns nil.
func startLink(to netip.AddrPort, clients int, loss float64, delay time.Duration) (*lossylink.Link, error) {
	if loss == 0 && delay == 0 {
		return nil, nil
	}
	l, err := lossylink.StartAt(loopback, to, clients, lossylink.Loss{ToServer: loss, ToClients: loss, Delay: delay})
	if err != nil {
		return nil, fmt.Errorf("start the link: %w", err)
	}
	return l, nil
}

// startServer starts a game server of the pair for a number of clients.
func startServer(pair Pair, at netip.AddrPort, clients int) (server, error) {
	if pair.To() == goRakNet {
		s, err := startGameServer(at, formOf(pair, pair.to))
		if err != nil {
			return nil, err // a nil server, not one that has a nil pointer
		}
		return s, nil
	}
	s, err := startCodecServer(pair, at, clients)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// tearDown stops the parts of an incomplete stage.
func (s *stage) tearDown() {
	if s.clients != nil {
		_ = s.clients.Close() // as below
	}
	if s.link != nil {
		s.link.Stop()
	}
	if s.proxy != nil {
		_ = s.proxy.stop() // the earlier error matters more
	}
	if s.server != nil {
		s.server.stop()
	}
}

// introduction describes the parts and their addresses.
func (s *stage) introduction(o *Options) string {
	text := fmt.Sprintf("Tidegate on %s in front of a %s game server (%s) on %s, which echoes messages.\n",
		s.proxy.addr(), s.pair.To(), s.pair.serverOn(), s.server.addr()) +
		fmt.Sprintf("%s play on it%s.\n", words.Count(o.Clients, s.pair.From()+" client"),
			over(s.link, o.Loss, o.Delay)) +
		"Round trips are the protocols' own measures; Riptide's are whole milliseconds.\n" + s.pair.waits()
	return text + warning(o.Loss) + plan(o.For) + "\n"
}

// over describes the link between clients and proxy.
func over(link *lossylink.Link, loss float64, delay time.Duration) string {
	if link == nil {
		return ""
	}
	var does []string
	if loss > 0 {
		does = append(does, fmt.Sprintf("loses %.3g %%", 100*loss))
	}
	if delay > 0 {
		does = append(does, fmt.Sprintf("takes %s", delay))
	}
	return fmt.Sprintf(" over a link on %s that %s each way", link.Addr(), strings.Join(does, " and "))
}

// plan says what the demo does next.
func plan(play time.Duration) string {
	if play == 0 {
		return "The clients join now, and play until Ctrl-C.\n"
	}
	return fmt.Sprintf("The clients join now, play for %s, and say goodbye.\n", play)
}

// waits explains the round trip to a server that acknowledges late.
func (p Pair) waits() string {
	if p.To() != goRakNet {
		return ""
	}
	return "This server waits up to 100 ms before it acknowledges an idle player: no cause for concern.\n"
}

// warning says what the column of dropped datagrams counts, and what a loss does to connections. A busy machine delays
// acknowledgements, so there are duplicates without a loss, too.
func warning(loss float64) string {
	text := "Receivers drop duplicates and late datagrams: that is normal on a busy machine or a link with losses.\n"
	if loss > badLoss {
		text += "Protocols end connections that lose so many heartbeats in a row: expect some to end.\n"
	}
	return text
}

// play runs the clients and shows the proxy.
func (s *stage) play(ctx context.Context, o *Options) error {
	watched, over := context.WithCancel(ctx)
	defer over()
	played := make(chan error, 1)
	go func() {
		defer over()
		played <- s.clients.play(ctx, o.For)
	}()
	s.watch(watched, o)
	return <-played
}

// watch shows the proxy until ctx is done, by the figures that operators have.
func (s *stage) watch(ctx context.Context, o *Options) {
	began := time.Now()
	_, _ = io.WriteString(o.Out, top.Heading)
	for l := range admin.Watch(ctx, s.proxy.server) {
		if l.Over > 0 {
			_, _ = io.WriteString(o.Out, top.Line(l, began))
		}
	}
}

// finish ends all parts, from the clients to the game server, and makes the result.
func (s *stage) finish() (Result, error) {
	last := &relay.ListSessions{Limit: math.MaxInt}
	_ = s.proxy.server.Ask(context.Background(), last) // a proxy that has ended has no sessions
	err := s.clients.leave()
	heard := s.awaitGoodbyes()
	result := s.clients.result()
	result.Pair = s.pair
	result.Heard = heard
	result.ProxyError = s.proxy.stop()
	if s.link != nil {
		result.Link = s.link.Stop()
	}
	if arrived := s.server.stop(); result.Pair.Promise() == AtLeastOnce {
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
		now, err := s.proxy.server.Figures(context.Background())
		if err != nil || now.Tables[stats.TableSessions] == 0 || time.Now().After(deadline) {
			return int(now.Counters.Closed)
		}
		time.Sleep(goodbyeInterval)
	}
}

// running is a running proxy.
type running struct {
	server *proxy.Server
	cancel context.CancelFunc
	ended  chan error
}

func startProxy(settings *relay.Settings, log zerolog.Logger) (*running, error) {
	server, err := proxy.Listen(settings, proxy.Options{Loops: 1, IO: netio.Options{}, Log: log})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{server: server, cancel: cancel, ended: make(chan error, 1)}
	go func() { r.ended <- server.Run(ctx) }()
	return r, nil
}

func (r *running) addr() netip.AddrPort { return r.server.Addrs()[0] }

// stop stops the proxy with goodbyes and waits for its end.
func (r *running) stop() error {
	r.cancel()
	return <-r.ended
}
