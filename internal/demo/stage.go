package demo

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/rs/zerolog"

	"tidegate/internal/lossylink"
	"tidegate/internal/netio"
	"tidegate/internal/words"
	"tidegate/proxy"
)

const (
	viewInterval = time.Second
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
	if s.server, err = startServer(o); err != nil {
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
	if o.Loss > 0 {
		if s.link, err = lossylink.Start(to, o.Clients, o.Loss); err != nil {
			return fmt.Errorf("start the link: %w", err)
		}
		to = s.link.Addr()
	}
	if s.clients, err = newClients(o.Pair, o.Clients, o.Rate, to); err != nil {
		return fmt.Errorf("make the clients: %w", err)
	}
	return nil
}

func startServer(o *Options) (server, error) {
	if o.Pair.To() == goRakNet {
		return startGameServer(loopback, formOf(o.Pair, o.Pair.to))
	}
	return startCodecServer(o.Pair, o.Clients)
}

// tearDown stops the parts of an incomplete stage.
func (s *stage) tearDown() {
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
	how := "play on it"
	if s.link != nil {
		how = fmt.Sprintf("play on it over a link on %s that loses %.3g %% each way", s.link.Addr(), 100*o.Loss)
	}
	text := fmt.Sprintf("Tidegate on %s in front of a %s game server (%s) on %s, which echoes messages.\n%s %s.\n",
		s.proxy.addr(), s.pair.To(), s.pair.serverOn(), s.server.addr(), words.Count(o.Clients,
			s.pair.From()+" client"), how) +
		"Round trips are the protocols' own measures; Riptide's are whole milliseconds.\n"
	if o.Loss > badLoss {
		text += "Protocols end connections that lose so many heartbeats in a row: expect some to end.\n"
	}
	return text + "\n"
}

// play runs the clients and shows their progress.
func (s *stage) play(ctx context.Context, o *Options, v *view) error {
	played := make(chan error, 1)
	go func() { played <- s.clients.play(ctx, o.For) }()
	ticker := time.NewTicker(viewInterval)
	defer ticker.Stop()
	for {
		select {
		case err := <-played:
			return err
		case now := <-ticker.C:
			v.show(now, s.proxy.server.Snapshot())
		}
	}
}

// finish ends all parts, from the clients to the game server, and makes the result.
func (s *stage) finish() (Result, error) {
	last := s.proxy.server.Snapshot()
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
		now := s.proxy.server.Snapshot()
		if len(now.Sessions) == 0 || time.Now().After(deadline) {
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

func startProxy(settings *proxy.Settings, log zerolog.Logger) (*running, error) {
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
