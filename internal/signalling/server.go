// Package signalling lets NetherNet's clients join over HTTP: it passes a client's offer on to a server, and the
// server's answer back with the edge's own addresses. docs/protocols/nethernet.md has the wire.
//
// Server (server.go) is the HTTP side: greet.go decides between TLS and plain HTTP, handler.go serves requests, and
// backend.go asks servers. A ticket of package joining remains of each answer. Caller (caller.go) joins servers itself,
// in place of clients.
package signalling

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"tidegate/internal/door"
	"tidegate/internal/joining"
	"tidegate/ratelimit"
)

// Options say how joins are served. Functions may be called at any time, also several at once.
type Options struct {
	Tickets *joining.Tickets
	Route   string // for tickets
	// Pick returns the server of a client's next join or question.
	Pick func(now time.Time, client netip.Addr) (Backend, error)
	Own  *Own // answers joins in place of servers; nil: Pick's servers do
	// Candidates returns the addresses that the answer names, at least one. The client reached the HTTP side at local.
	Candidates func(local netip.Addr) []netip.AddrPort
	// Certificate returns the certificate for TLS; nil: there is only plain HTTP, as at Bedrock's own server.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	OnlyTLS     bool                  // refuse plain HTTP with 426
	Trusted     []netip.Prefix        // proxies whose PROXY headers and X-Forwarded-For count
	Allows      func(netip.Addr) bool // whether a client may ask at all; nil: everybody may
	Draining    func() bool           // nil: never
	Now         func() time.Time      // nil: time.Now

	Room  *door.Room      // of the connections, with other Servers'; nil: a room for DefaultConnections
	Rates ratelimit.Rates // requests a second; 0: DefaultRates
	Seed  uint64          // which networks share a limit of Rates
	Times Times           // zero fields: the fields of DefaultTimes
}

// DefaultConnections bounds the HTTP connections that share a Room, and with them their memory to about 30 MiB.
const DefaultConnections = 512

// DefaultRates bound the requests of networks that ask without end.
var DefaultRates = ratelimit.Rates{Overall: 500, Network: 50}

// Times bound how long others may take.
type Times struct {
	Header time.Duration // of a client: until a request's header is there, also TLS and PROXY
	Body   time.Duration // of a client: an offer, or the taking of an answer
	Idle   time.Duration // between two requests of a connection
	Dial   time.Duration // to a server
	Answer time.Duration // of a server; Bedrock's gathers its candidates first
}

// DefaultTimes are for real networks and servers.
var DefaultTimes = Times{
	Header: 5 * time.Second, Body: 10 * time.Second, Idle: 30 * time.Second,
	Dial: 5 * time.Second, Answer: 90 * time.Second,
}

func (t Times) withDefaults() Times {
	d := DefaultTimes
	return Times{
		cmp.Or(t.Header, d.Header), cmp.Or(t.Body, d.Body), cmp.Or(t.Idle, d.Idle), cmp.Or(t.Dial, d.Dial),
		cmp.Or(t.Answer, d.Answer),
	}
}

// maxHeader is the size in bytes of the largest header of a request. Real ones have less than 400.
const maxHeader = 8 << 10

// Server serves the joins of one listener.
type Server struct {
	o        Options
	own      atomic.Pointer[Own] // nil: servers answer joins
	backends backends
	http     http.Server
	secure   *tls.Config
	ready    chan net.Conn // connections whose first bytes are known
	listed   atomic.Int64  // when the last question for the state was answered

	mu     sync.Mutex
	budget *ratelimit.Budget
}

// New returns a Server. Serve starts it.
func New(o Options) *Server {
	o.Times = o.Times.withDefaults()
	if o.Room == nil {
		o.Room = door.NewRoom(DefaultConnections)
	}
	if o.Rates == (ratelimit.Rates{}) {
		o.Rates = DefaultRates
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{o: o, backends: newBackends(o.Times), ready: make(chan net.Conn)}
	s.own.Store(o.Own)
	s.budget = ratelimit.NewBudget(o.Rates, o.Seed)
	s.http = http.Server{
		Handler: s, ReadHeaderTimeout: o.Times.Header, IdleTimeout: o.Times.Idle, MaxHeaderBytes: maxHeader,
		ErrorLog: log.New(io.Discard, "", 0), ConnContext: withConn, Protocols: new(http.Protocols),
	}
	s.http.Protocols.SetHTTP1(true) // the client's library knows no other
	s.secure = &tls.Config{
		GetCertificate: o.Certificate, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
	}
	return s
}

// Renew sets how joins are answered from now on, for a Server whose Options have Own.
func (s *Server) Renew(own *Own) { s.own.Store(own) }

// Serve serves the connections of a TCP listener until ctx is done. Joins that have begun then have some seconds more.
// Serve closes the listener, and returns its error if that is why it ends.
func (s *Server) Serve(ctx context.Context, raw net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l := s.o.Room.Bound(raw)
	var all sync.WaitGroup
	defer all.Wait()
	defer s.backends.close()
	all.Go(func() { _ = s.http.Serve(&handed{s.ready, ctx, raw.Addr()}) })
	defer func() {
		cancel()
		s.shutDown()
	}()
	// Without room for a descriptor, Accept may have returned before the function runs that ends it.
	defer func() { _ = l.Close() }()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		c, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = c.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // no descriptors are left
			select {
			case <-ctx.Done():
			case <-time.After(acceptPause):
			}
		default:
			all.Go(func() { s.greet(ctx, c.(*door.Conn)) })
		}
	}
}

const (
	acceptPause = 100 * time.Millisecond
	lastAnswers = 5 * time.Second
	offerTime   = 300 * time.Millisecond // in which an offer follows the question for the state
)

// shutDown waits for the last offers and answers: a client asks once.
func (s *Server) shutDown() {
	time.Sleep(time.Until(time.Unix(0, s.listed.Load()).Add(offerTime)))
	ctx, cancel := context.WithTimeout(context.Background(), lastAnswers)
	defer cancel()
	_ = s.http.Shutdown(ctx)
	_ = s.http.Close()
}

// handed is the listener of the HTTP server: it has the connections that greet has found to be good.
type handed struct {
	ready <-chan net.Conn
	ctx   context.Context
	addr  net.Addr
}

func (h *handed) Accept() (net.Conn, error) {
	select {
	case c := <-h.ready:
		return c, nil
	case <-h.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (h *handed) Close() error   { return nil }
func (h *handed) Addr() net.Addr { return h.addr }
