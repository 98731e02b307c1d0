// Package admin is how operators and their programs see into a running proxy and tell it what to do: metrics, health,
// profiles, and an API in JSON, all over HTTP on an address of its own. It decides nothing about players; whatever it
// tells or does, it asks of the proxy.
//
// Start with Server, then endpoint.go for what an endpoint is and routes.go for the list of them; each resource has its
// file. Client is the other end, for commands. openapi.json describes the API, and a test holds it to the code.
package admin

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/rs/zerolog"

	"tidegate/proxy"
)

// Proxy is what the admin server asks of a proxy; *proxy.Server has it. All of it is safe for concurrent use.
type Proxy interface {
	Figures(ctx context.Context) (proxy.Figures, error)
	Sessions(ctx context.Context, q proxy.Query) ([]proxy.Session, error)
	Session(ctx context.Context, id proxy.SessionID) (proxy.Session, error)
	Kick(ctx context.Context, id proxy.SessionID, text string) error
	Why(ctx context.Context, a netip.Addr) (proxy.Why, error)
	Capture(ctx context.Context, f proxy.CaptureFilter, take func(*proxy.Catch) error) error
	Transfer(ctx context.Context, id proxy.SessionID, to netip.AddrPort) error
	Upstreams() []proxy.UpstreamStatus
	TransferServer(ctx context.Context, upstream string, from netip.AddrPort) (moved int, err error)
	DrainServer(upstream string, server netip.AddrPort) error
	UndrainServer(upstream string, server netip.AddrPort) error
}

// Options are what a Server is made of.
type Options struct {
	Proxy   Proxy
	Token   string // that every request must bring as "Authorization: Bearer"; empty: none is asked for
	Version string // of Tidegate
	// Reload puts the changed configuration file into force, or nothing of it; cause is told in the log.
	Reload  func(cause string) error
	Reloads func() Reloads // how that went so far
	Config  func() string  // in force, as TOML with every default and without secrets
	Drain   func()         // ends the proxy as SIGTERM does
	Log     zerolog.Logger
}

// Server answers operators. It is safe for concurrent use.
type Server struct {
	Options
	started time.Time
	handler http.Handler
}

// New returns a server that Serve starts.
func New(o Options) *Server {
	s := &Server{Options: o, started: time.Now()}
	s.handler = s.guard(s.routes())
	return s
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Times that a connection may take. A profile takes longer, and extends its own.
const (
	readTimeout  = 10 * time.Second
	writeTimeout = 30 * time.Second
	idleTimeout  = 2 * time.Minute
	maxHeader    = 16 << 10 // bytes
	maxBody      = 1 << 20  // bytes
	partingTime  = time.Second
)

// Serve answers those who come to a listener, until ctx is done, and closes it. It returns nil then.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	web := &http.Server{
		Handler: s, ReadTimeout: readTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: log.New(complaints{s.Log}, "", 0),
	}
	parted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(parted)
		// Whoever asked for the end hears that it has begun.
		parting, cancel := context.WithTimeout(context.WithoutCancel(ctx), partingTime)
		defer cancel()
		if web.Shutdown(parting) != nil {
			_ = web.Close()
		}
	})
	if err := web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return err
	}
	<-parted
	return nil
}
