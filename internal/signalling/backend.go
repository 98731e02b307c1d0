package signalling

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"tidegate/codec/nethernet"
)

// Backend is a server that joins are passed on to. Bedrock's server speaks plain HTTP only.
type Backend struct {
	Addr netip.AddrPort // of its HTTP side
	// AnyAddress takes the port that its answers name, and Addr's address, for a server behind NAT or in a container.
	AnyAddress bool
}

// maxBody is the size in bytes of the largest body, both ways.
const maxBody = nethernet.MaxDescription

const (
	maxBackendConns  = 64 // of each server, for questions
	maxBackendIdle   = 8
	maxBackendHeader = 16 << 10
)

var errBody = errors.New("the server's answer is too large")

// backends asks servers. A join has a connection of its own. If a server closes an idle one just then, it may have the
// offer or not, and a join is asked once.
type backends struct {
	lists, joins *http.Transport
	answer       time.Duration
}

func newBackends(t Times) backends {
	dial := &net.Dialer{Timeout: t.Dial}
	transport := func(alone bool) *http.Transport {
		return &http.Transport{
			DialContext: dial.DialContext, DisableKeepAlives: alone, DisableCompression: true,
			MaxConnsPerHost: maxBackendConns, MaxIdleConnsPerHost: maxBackendIdle, IdleConnTimeout: t.Idle,
			MaxResponseHeaderBytes: maxBackendHeader,
		}
	}
	b := backends{lists: transport(false), joins: transport(true), answer: t.Answer}
	b.joins.MaxConnsPerHost = 0 // tickets bound them
	return b
}

func (b *backends) close() {
	b.lists.CloseIdleConnections()
	b.joins.CloseIdleConnections()
}

// response is a server's answer, whole.
type response struct {
	status int
	header http.Header
	body   []byte
}

// ask passes a client's request on, with this body. It follows no redirect, and it never asks twice.
func (b *backends) ask(ctx context.Context, to Backend, r *http.Request, body []byte) (*response, error) {
	ctx, cancel := context.WithTimeout(ctx, b.answer)
	defer cancel()
	at := url.URL{
		Scheme: "http", Host: to.Addr.String(), Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery,
	}
	transport := b.joins
	var reader io.Reader
	if r.Method == http.MethodGet {
		transport = b.lists
	} else {
		reader = bytes.NewReader(body) // with its Content-Length: Bedrock's server reads no chunks
	}
	out, err := http.NewRequestWithContext(ctx, r.Method, at.String(), reader)
	if err != nil {
		return nil, err
	}
	out.Host, out.Header = r.Host, endToEnd(r.Header)
	out.Header.Del("Accept-Encoding") // the answer must be read here
	if out.Header.Get("User-Agent") == "" {
		out.Header["User-Agent"] = nil // or Go states its own
	}
	in, err := transport.RoundTrip(out)
	if err != nil {
		return nil, plain(err)
	}
	defer func() { _ = in.Body.Close() }()
	read, err := io.ReadAll(io.LimitReader(in.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, plain(err)
	case len(read) > maxBody || in.StatusCode < http.StatusOK:
		return nil, errBody
	}
	return &response{in.StatusCode, endToEnd(in.Header), read}, nil
}

// plain leaves out what a reader of the log knows already.
func plain(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer in time: %w", err)
	}
	return err
}

// hopByHop are headers of one connection, and headers in which a client could claim another address.
var hopByHop = []string{
	"Connection", "Content-Length", "Expect", "Forwarded", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "X-Forwarded-For", "X-Forwarded-Host",
	"X-Forwarded-Proto", "X-Real-Ip",
}

// endToEnd returns the headers that go on to the other side.
func endToEnd(h http.Header) http.Header {
	out := h.Clone()
	for _, list := range h["Connection"] {
		for _, name := range strings.Split(list, ",") {
			out.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		out.Del(name)
	}
	return out
}
