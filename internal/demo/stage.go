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
	// goodbyeTime is how long the proxy is given to hear the clients' goodbyes before it is stopped. It is a little more
	// than a goodbye to the server may take.
	goodbyeTime     = 2500 * time.Millisecond
	goodbyeInterval = 20 * time.Millisecond
	// badLoss is the loss from which protocols lose connections. Riptide is one: a server gives a client up that it has
	// not heard a heartbeat of for 5 s, and there is one a second.
	badLoss = 0.2
)

var loopback = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0) // with any free port

// stage is everything a demo runs.
type stage struct {
	pair    Pair
	server  server
	proxy   *running
	link    *lossylink.Link // nil without loss
	clients *clients
}

// server is a game server that echoes.
type server interface {
	addr() netip.AddrPort
	// stop closes the socket and returns the books of what reached the server, if it keeps any.
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

// start starts the parts, those behind before those in front.
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
	door := s.proxy.addr()
	if o.Loss > 0 {
		if s.link, err = lossylink.Start(door, o.Clients, o.Loss); err != nil {
			return fmt.Errorf("start the link: %w", err)
		}
		door = s.link.Addr()
	}
	if s.clients, err = newClients(o.Pair, o.Clients, o.Rate, door); err != nil {
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

// tearDown stops what was started of a stage that could not be completed.
func (s *stage) tearDown() {
	if s.link != nil {
		s.link.Stop()
	}
	if s.proxy != nil {
		_ = s.proxy.stop() // the error that matters is the one before
	}
	if s.server != nil {
		s.server.stop()
	}
}

// introduction says what runs in front of what.
func (s *stage) introduction(o *Options) string {
	way := "play on it"
	if s.link != nil {
		way = fmt.Sprintf("play on it by a link on %s that loses %.3g %% each way", s.link.Addr(), 100*o.Loss)
	}
	text := fmt.Sprintf("Tidegate on %s in front of a %s game server (%s), an echo, on %s.\n%s %s.\n",
		s.proxy.addr(), s.pair.To(), s.pair.serverOn(), s.server.addr(), words.Count(o.Clients, s.pair.From()+" client"), way) +
		"Round trips are the protocols' own measures; Riptide's are whole milliseconds.\n"
	if o.Loss > badLoss {
		text += "Protocols give up connections that lose so many heartbeats in a row: expect some to end.\n"
	}
	return text + "\n"
}

// play lets the clients play, and shows how it goes.
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

// finish ends all parts in good order, those in front before those behind, and draws up the result.
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
	if books := s.server.stop(); result.Pair.Promise() == AtLeastOnce {
		books.correct(&result.Reliable)
	}
	for i := range last.Sessions {
		result.Resent.ToClients += last.Sessions[i].ClientStats.Resent
		result.Resent.ToServer += last.Sessions[i].UpstreamStats.Resent
	}
	return result, err
}

// awaitGoodbyes waits until the proxy has heard every client's goodbye and passed it on, and returns how many it heard.
// A goodbye that the link lost is never heard: most protocols say it once, and R-Type's players never do.
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

// running is a proxy that serves.
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

// stop lets the proxy say its goodbyes and waits for it.
func (r *running) stop() error {
	r.cancel()
	return <-r.ended
}
