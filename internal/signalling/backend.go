package signalling

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tidegate/codec/nethernet"
)

// Backend is a server that joins are passed on to. Bedrock's server speaks plain HTTP only.
type Backend struct {
	Addr netip.AddrPort // of its HTTP side
	// AnyAddress takes the port that its answers name, and Addr's address, for a server behind NAT or in a container.
	AnyAddress bool
	Free       func() // gives back the place that a join holds there; nil: it holds none
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

// Caller joins servers in place of clients that cannot join themselves. Its offers have an identity that it signs: a
// player's own is not to be had. It is safe for concurrent use.
type Caller struct {
	key         *ecdsa.PrivateKey
	fingerprint nethernet.Fingerprint
	anyAddress  bool
	backends    backends
	places      chan struct{} // of joins that wait for their servers
}

// MaxCalls bounds the joins of a Caller that wait for their servers, and with them its memory to some 30 MiB.
const MaxCalls = 256

// callTime is how long a server may take to answer. Players have less patience.
const callTime = 30 * time.Second

// ErrCalls reports that MaxCalls is reached.
var ErrCalls = fmt.Errorf("%w: joins wait for their servers", nethernet.ErrBusy)

// NewCaller returns a Caller with a key of P-384. The fingerprint is that of the certificate of its stacks. anyAddress
// is for servers behind NAT or in containers, see Backend.
func NewCaller(key *ecdsa.PrivateKey, fingerprint nethernet.Fingerprint, anyAddress bool) *Caller {
	return &Caller{
		key: key, fingerprint: fingerprint, anyAddress: anyAddress,
		backends: newBackends(Times{Answer: callTime}.withDefaults()), places: make(chan struct{}, MaxCalls),
	}
}

// Join asks a server once, and waits for its answer. A server's refusal is a nethernet.Refusal.
func (c *Caller) Join(ctx context.Context, server netip.AddrPort) (*nethernet.Answer, error) {
	select {
	case c.places <- struct{}{}:
		defer func() { <-c.places }()
	default:
		return nil, ErrCalls
	}
	var chance [16]byte
	_, _ = rand.Read(chance[:]) // never fails
	a := &nethernet.Answer{
		Ufrag: randomText(6), Password: randomText(18), Seed: binary.BigEndian.Uint64(chance[:]),
	}
	session := binary.BigEndian.Uint64(chance[8:])
	offer, err := describe(time.Now(), c.key, nethernet.Own{ // without candidates: a check tells the server our address
		Ufrag: a.Ufrag, Password: a.Password, Setup: "actpass", Session: session,
		Fingerprints: []nethernet.Fingerprint{c.fingerprint},
	})
	if err != nil {
		return nil, fmt.Errorf("make an offer: %w", err)
	}
	in, err := c.backends.ask(ctx, Backend{Addr: server}, &http.Request{
		Method: http.MethodPost, Host: server.String(),
		URL:    &url.URL{Path: joinPath + "/" + strconv.FormatUint(session, 10)},
		Header: http.Header{"Content-Type": {"application/sdp"}},
	}, offer)
	if err != nil {
		return nil, fmt.Errorf("join the server over HTTP: %w", err)
	}
	if err := c.read(in, server, a); err != nil {
		return nil, err
	}
	return a, nil
}

var errPassive = errors.New("use the server's answer: it does not begin with DTLS (a=setup:active)")

// read reads a server's answer. The address in it is always the server's own.
func (c *Caller) read(in *response, server netip.AddrPort, a *nethernet.Answer) error {
	if in.status >= http.StatusMultipleChoices || !bytes.HasPrefix(in.body, []byte("v=")) {
		return &nethernet.Refusal{Status: in.status, Text: string(in.body)}
	}
	d, err := nethernet.ParseDescription(in.body)
	if err != nil {
		return fmt.Errorf("use the server's answer: %w", err)
	}
	if d.Setup != "active" {
		return errPassive
	}
	if a.Target, err = d.Target(server.Addr(), c.anyAddress); err != nil {
		return fmt.Errorf("use the server's answer: %w", err)
	}
	a.PeerUfrag, a.PeerPassword = d.Ufrag, d.Password
	a.Peer = &nethernet.Peer{Fingerprints: d.Fingerprints, MaxMessageSize: d.MaxMessageSize}
	return nil
}
