// Package demo shows Tidegate's main job, for real and in one process: Riptide clients play on a RakNet server through
// the proxy, over loopback sockets, and every message is accounted for.
//
// The server (server.go) is written on go-raknet, a RakNet implementation that is not ours, and echoes what it reads. The
// clients (crowd.go, client.go) send numbered, checksummed messages (probe.go) and keep the books (ledger.go). A link
// (link.go) between them and the proxy loses datagrams, if asked to. Start with Run.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/rs/zerolog"

	"tidegate/netio"
	"tidegate/proxy"
)

// Bounds and defaults of Options.
const (
	maxClients     = 500
	maxRate        = 1000
	maxLoss        = 0.5
	defaultClients = 4
	defaultRate    = 20
)

const (
	viewInterval = time.Second
	// goodbyeTime is how long the proxy is given to hear the clients' goodbyes before it is stopped. It is a little more
	// than a goodbye to the server may take.
	goodbyeTime     = 2500 * time.Millisecond
	goodbyeInterval = 20 * time.Millisecond
)

var loopback = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0) // with any free port

// Options are what a demo is to be like.
type Options struct {
	For     time.Duration // how long the clients send, once all are there; 0 means until the context is done
	Clients int           // 1 to 500; 4 if zero
	Loss    float64       // share of datagrams lost between clients and proxy, each way, 0 to 0.5
	Rate    int           // reliable messages a second and client, and as many unreliable ones; 1 to 1000, 20 if zero
	// Settings makes the proxy's settings, with one listener at listen and one upstream server.
	Settings func(listen, server netip.AddrPort) (*proxy.Settings, error)
	Out      io.Writer      // where the table and the summary go
	Terminal bool           // Out is a terminal: the table is redrawn in place; else a line a second is written
	Log      zerolog.Logger // the proxy's
}

// Run plays the demo until its time is over or ctx is done; both end in the same order: the clients stop sending, wait
// for what is under way, say goodbye, then the proxy stops, then the server. It writes a summary to o.Out and returns
// it. An error means that the demo could not be set up or driven; whether it passed is the Result's to tell.
func Run(ctx context.Context, o Options) (Result, error) {
	o, err := o.checked()
	if err != nil {
		return Result{}, err
	}
	s, err := setUp(&o)
	if err != nil {
		return Result{}, err
	}
	v := newView(o.Out, o.Terminal, time.Now())
	v.write(s.introduction(&o))
	driveErr := s.play(ctx, &o, v)
	result, err := s.finish()
	if err = errors.Join(driveErr, err); err != nil {
		return result, err
	}
	v.write(result.Summary())
	return result, nil
}

// checked fills in the defaults, or says what cannot be.
func (o Options) checked() (Options, error) {
	if o.Clients == 0 {
		o.Clients = defaultClients
	}
	if o.Rate == 0 {
		o.Rate = defaultRate
	}
	switch {
	case o.Clients < 1 || o.Clients > maxClients:
		return o, fmt.Errorf("%d clients: want 1 to %d", o.Clients, maxClients)
	case o.Rate < 1 || o.Rate > maxRate:
		return o, fmt.Errorf("rate %d: want 1 to %d", o.Rate, maxRate)
	case !(o.Loss >= 0 && o.Loss <= maxLoss):
		return o, fmt.Errorf("loss %v: want 0 to %v", o.Loss, maxLoss)
	case o.For < 0:
		return o, fmt.Errorf("duration %v: want 0 or more", o.For)
	}
	return o, nil
}

// stage is everything a demo runs.
type stage struct {
	server *gameServer
	proxy  *running
	link   *link // nil without loss
	crowd  *crowd
}

// setUp starts all parts, those behind before those in front.
func setUp(o *Options) (s *stage, err error) {
	s = &stage{}
	defer func() {
		if err != nil {
			s.tearDown()
		}
	}()
	if s.server, err = startGameServer(loopback); err != nil {
		return nil, fmt.Errorf("start the game server: %w", err)
	}
	settings, err := o.Settings(loopback, s.server.addr())
	if err != nil {
		return nil, fmt.Errorf("make the proxy's settings: %w", err)
	}
	if s.proxy, err = startProxy(settings, o.Log); err != nil {
		return nil, fmt.Errorf("start the proxy: %w", err)
	}
	door := s.proxy.addr()
	if o.Loss > 0 {
		if s.link, err = startLink(door, o.Clients, o.Loss); err != nil {
			return nil, fmt.Errorf("start the link: %w", err)
		}
		door = s.link.addr()
	}
	if s.crowd, err = newCrowd(o.Clients, o.Rate, door, time.Now()); err != nil {
		return nil, fmt.Errorf("make the clients: %w", err)
	}
	return s, nil
}

// tearDown stops what a failed setUp has started.
func (s *stage) tearDown() {
	if s.link != nil {
		s.link.stop()
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
		way = fmt.Sprintf("play on it by a link on %s that loses %.3g %% each way", s.link.addr(), 100*o.Loss)
	}
	return fmt.Sprintf("Tidegate on %s in front of a RakNet game server, an echo, on %s.\n", s.proxy.addr(), s.server.addr()) +
		fmt.Sprintf("%s %s.\n", count(o.Clients, "Riptide client"), way) +
		"Round trips are as the protocols know them: Riptide in whole ms, go-raknet within its 100 ms ticks.\n\n"
}

// play lets the clients play, and shows how it goes.
func (s *stage) play(ctx context.Context, o *Options, v *view) error {
	played := make(chan error, 1)
	go func() { played <- s.crowd.play(ctx, o.For) }()
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
	err := s.crowd.leave()
	heard := s.awaitGoodbyes()
	result := s.crowd.result()
	result.Heard = heard
	result.ProxyError = s.proxy.stop()
	if s.link != nil {
		result.Link = s.link.stop()
	}
	s.server.stop()
	for i := range last.Sessions {
		result.Resent.ToClients += last.Sessions[i].ClientStats.Resent
		result.Resent.ToServer += last.Sessions[i].UpstreamStats.Resent
	}
	return result, err
}

// awaitGoodbyes waits until the proxy has heard every client's goodbye and passed it on, and returns how many it heard.
// A goodbye that the link lost is never heard: Riptide says it once.
func (s *stage) awaitGoodbyes() int {
	deadline := time.Now().Add(goodbyeTime)
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
