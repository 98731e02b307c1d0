// Package admin is the interface for operators and their programs to a running proxy: metrics, health, profiles, and a
// JSON API, all over HTTP at an address of its own. It decides nothing about clients; it passes every question and
// command to the proxy.
//
// Start with Server, then routes.go, which defines an endpoint and lists them. Each resource has its own file. Client
// is the other end, for commands. The file openapi.json describes the API; a test keeps it equal to the code.
package admin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"tidegate/internal/door"
	"tidegate/internal/fleet/view"
	"tidegate/proxy"
	"tidegate/proxy/relay"
	"tidegate/proxy/relay/recording"
	"tidegate/ratelimit"
)

// Proxy is the part of a proxy that the admin server uses; *proxy.Server implements it. It must be safe for concurrent
// use.
type Proxy interface {
	Figures(ctx context.Context) (relay.Figures, error)
	Ask(ctx context.Context, q relay.Request) error
	Upstreams() []proxy.UpstreamStatus
	TransferServer(ctx context.Context, upstream string, from netip.AddrPort) (moved int, err error)
	DrainServer(upstream string, server netip.AddrPort) error
	UndrainServer(upstream string, server netip.AddrPort) error
}

// Captures takes datagrams of the proxy; *captures.Captures implements it.
type Captures interface {
	Capture(ctx context.Context, f recording.CaptureFilter, take func(*recording.Catch) error) error
	Recorded(ctx context.Context, f recording.RecordFilter, take func(*recording.Catch) error) error
}

// Options configure a Server.
type Options struct {
	Proxy    Proxy
	Captures Captures
	Token    string // required of every request as "Authorization: Bearer"; empty: none
	Version  string // Tidegate's version
	// Reload applies the changed configuration file, completely or not at all. The log shows cause.
	Reload  func(cause string) error
	Reloads func() Reloads // results so far
	Config  func() Configuration
	Drain   func() // ends the proxy as SIGTERM does
	// StartUpgrade begins to replace the process, as SIGUSR2 does, or returns why it cannot.
	StartUpgrade func() error
	Upgrades     func() Upgrade // the state of upgrades
	Log          zerolog.Logger
	Bans         *ratelimit.Bans         // nil: none, and new ones have no effect
	SyncBans     func() error            // reads and writes the ban file; nil: there is no file
	Joins        func() map[string]Joins // of NetherNet clients, by listener; nil: none
	// Limits returns values of [limits] by their keys; nil: none.
	Limits func() map[string]int
	// Fleet, FleetServers, FleetSessions and FleetBans return this node's part in a fleet, the fleet's game servers, its
	// nodes' counts of sessions, and its bans; nil: none.
	Fleet         func() view.Fleet
	FleetServers  func() []FleetServer
	FleetSessions func() []FleetNode
	FleetBans     func(ctx context.Context) ([]FleetBan, error)
	// DrainToFleet moves all sessions to other nodes, and then ends the proxy, at the latest after a time.
	DrainToFleet func(ctx context.Context, node string, within time.Duration) error
	Events       *Events // the time line; nil: none
	// LinesLost is how many lines of the log were lost; nil: none.
	LinesLost func() uint64
}

// Server answers operators' requests. It is safe for concurrent use.
type Server struct {
	Options
	started time.Time
	pages   live
	past    past
	handler http.Handler
}

// New returns a server. Serve starts it.
func New(o Options) *Server {
	orZero(&o.LinesLost)
	orZero(&o.Limits)
	orZero(&o.Joins)
	orZero(&o.SyncBans)
	orZero(&o.Fleet)
	orZero(&o.FleetServers)
	orZero(&o.FleetSessions)
	if o.FleetBans == nil {
		o.FleetBans = func(context.Context) ([]FleetBan, error) { return nil, nil }
	}
	if o.DrainToFleet == nil {
		o.DrainToFleet = func(context.Context, string, time.Duration) error { return ErrNoFleet }
	}
	o.Bans = cmp.Or(o.Bans, ratelimit.NewBans(ratelimit.Terms{}))
	s := &Server{Options: o, started: time.Now()}
	s.pages = live{server: s, streams: make(map[*stream]struct{})}
	s.past = past{server: s}
	s.handler = s.guard(s.routes())
	return s
}

// orZero sets a function that Options leave out.
func orZero[T any](f *func() T) {
	if *f == nil {
		*f = func() (zero T) { return zero }
	}
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Limits of a connection. A profile extends its own time.
const (
	headerTimeout = 2 * time.Second // from the connection, or the next request's first byte, to the token
	readTimeout   = 10 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 4 << 10 // bytes; net/http adds as many
	maxBody       = 1 << 20 // bytes
	shutdownTime  = time.Second
)

// Serve answers requests at a listener until ctx is done, and closes it. It then returns nil. It holds at most
// door.Conns connections: one without a valid request makes room for a new one.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	web := &http.Server{
		Handler: s, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader, ErrorLog: log.New(errorLog{s.Log}, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ConnState: func(c net.Conn, state http.ConnState) {
			if state == http.StateIdle {
				c.(*door.Conn).Yield()
			}
		},
	}
	collecting, done := context.WithCancel(ctx)
	var collected sync.WaitGroup
	defer collected.Wait() // it reads what the caller closes next
	defer done()
	collected.Go(func() { s.past.run(collecting) })
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		// The request that ended the proxy still gets its answer.
		shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
		defer cancel()
		if web.Shutdown(shutdown) != nil {
			_ = web.Close()
		}
	})
	if err := web.Serve(door.Bound(l, door.Conns)); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return err
	}
	<-stopped
	return nil
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// errorLog writes errors of net/http to our log, for example about connections that cannot be accepted.
type errorLog struct{ log zerolog.Logger }

// Write logs one line.
func (c errorLog) Write(line []byte) (int, error) {
	c.log.Warn().Bytes("error", bytes.TrimSpace(line)).Msg("admin server error")
	return len(line), nil
}
