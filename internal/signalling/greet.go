package signalling

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/pires/go-proxyproto"

	"tidegate/internal/door"
)

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
