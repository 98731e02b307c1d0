// Package signalling lets NetherNet's clients join over HTTP: it passes a client's offer on to a server, and the
// server's answer back with the edge's own addresses. docs/protocols/nethernet.md has the wire.
//
// Server (server.go) is the HTTP side: it decides between TLS and plain HTTP, handler.go serves requests, and
// backend.go asks servers. A ticket of package joining remains of each answer. Caller (backend.go) joins servers
// itself, in place of clients.
package signalling

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pires/go-proxyproto"
	"tidegate/internal/door"
	"tidegate/internal/joining"
	"tidegate/internal/regular"
	"tidegate/ratelimit"
)

// Options say how joins are served. Functions may be called at any time, also several at once.
type Options struct {
	Tickets *joining.Tickets
	Route   string // for tickets
	// Pick returns the server of a client's next join, or of its question. If failed is valid, that server was tried.
	Pick func(client netip.Addr, joins bool, failed netip.AddrPort) (Backend, error)
	// Failed hears of a server that cannot be reached, or that answers a request of begun with a fault; nil: nothing does.
	Failed func(server netip.AddrPort, begun time.Time, fault error)
	Own    *Own // answers joins in place of servers; nil: Pick's servers do
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
	offerTime   = time.Second // in which an offer follows the question for the state
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

const (
	tlsHandshake = 0x16 // the first byte of a ClientHello
	peekBuffer   = 512  // bytes, for the PROXY header
	drainTime    = time.Second
	drainBytes   = 64 << 10
)

// noTLS is the alert with which Bedrock's server answers a ClientHello: handshake_failure. Real clients then try plain
// HTTP. They do not after a reset, or without an answer.
var noTLS = []byte{0x15, 3, 1, 0, 2, 2, 0x28}

// conn is a client's connection behind its PROXY header.
type conn struct {
	*door.Conn
	reader        *bufio.Reader
	client, local netip.AddrPort
}

// greet reads the first bytes of a connection. It hands the connection to the HTTP server, or closes it.
func (s *Server) greet(ctx context.Context, place *door.Conn) {
	c := &conn{
		Conn: place, reader: bufio.NewReaderSize(place, peekBuffer),
		client: addrOf(place.RemoteAddr()), local: addrOf(place.LocalAddr()),
	}
	_ = c.SetDeadline(time.Now().Add(s.o.Times.Header))
	ready := s.open(c)
	if ready == nil {
		_ = c.Close()
		return
	}
	_ = c.SetDeadline(time.Time{})
	select {
	case s.ready <- ready:
	case <-ctx.Done():
		_ = c.Close()
	}
}

// open returns the connection for the HTTP server, or nil if there is nothing to serve.
func (s *Server) open(c *conn) net.Conn {
	if s.trusts(c.client.Addr()) {
		if err := c.readHeader(); err != nil {
			return nil
		}
	}
	if !s.allows(c.client.Addr()) {
		return nil
	}
	first, err := c.reader.Peek(1)
	switch {
	case err != nil:
		return nil
	case first[0] != tlsHandshake:
		return c
	case s.o.Certificate == nil:
		c.refuseTLS()
		return nil
	}
	return tls.Server(c, s.secure)
}

// readHeader reads the PROXY header, of version 1 or 2. A trusted proxy may leave it out, for X-Forwarded-For or for a
// health check.
func (c *conn) readHeader() error {
	header, err := proxyproto.Read(c.reader)
	switch {
	case errors.Is(err, proxyproto.ErrNoProxyProtocol):
		return nil
	case err != nil:
		return err
	case header.Command.IsLocal():
		return nil
	}
	client, local := addrOf(header.SourceAddr), addrOf(header.DestinationAddr)
	if client.IsValid() {
		c.client = client
	}
	if local.IsValid() {
		c.local = local
	}
	return nil
}

// refuseTLS sends the alert. Then it reads the rest, since a close before would reset the connection.
func (c *conn) refuseTLS() {
	if _, err := c.Write(noTLS); err != nil {
		return
	}
	_ = c.CloseWrite()
	_ = c.SetReadDeadline(time.Now().Add(drainTime))
	_, _ = io.CopyN(io.Discard, c.reader, drainBytes)
}

// Read reads on behind the header.
func (c *conn) Read(b []byte) (int, error) { return c.reader.Read(b) }

// CloseWrite says that nothing follows. The HTTP server calls it before it closes after an error.
func (c *conn) CloseWrite() error {
	if tcp, ok := c.Conn.Conn.(*net.TCPConn); ok {
		return tcp.CloseWrite()
	}
	return nil
}

// connKey is the key of a request's conn in its context.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	if secured, ok := c.(*tls.Conn); ok {
		c = secured.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

func connOf(ctx context.Context) *conn { return ctx.Value(connKey{}).(*conn) }

func (s *Server) trusts(a netip.Addr) bool {
	return slices.ContainsFunc(s.o.Trusted, func(p netip.Prefix) bool { return p.Contains(a) })
}

func (s *Server) allows(a netip.Addr) bool { return s.o.Allows == nil || s.o.Allows(a) }

func addrOf(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	at := tcp.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
}

// Certificate is a TLS certificate in two PEM files, which may be renewed at any time.
type Certificate struct {
	chain, key string
	current    atomic.Pointer[tls.Certificate]
}

// LoadCertificate reads the files.
func LoadCertificate(chain, key string) (*Certificate, error) {
	c := &Certificate{chain: chain, key: key}
	return c, c.Load()
}

// Load reads the files again. After an error, the certificate stays as it was.
func (c *Certificate) Load() error {
	chain, err := regular.ReadFile(c.chain)
	if err != nil {
		return fmt.Errorf("read the certificate: %w", err)
	}
	key, err := regular.ReadFile(c.key)
	if err != nil {
		return fmt.Errorf("read the certificate's key: %w", err)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return fmt.Errorf("use the certificate %s: %w", c.chain, err)
	}
	c.current.Store(&pair)
	return nil
}

// Get returns the newest certificate, for Options.Certificate.
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.current.Load(), nil
}
