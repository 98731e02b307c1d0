package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Address is the address of an admin server: Auto, "unix:" and the path of a socket, or ip:port. For a client it
// may also be "https://" and the host of a reverse proxy with TLS.
type Address string

// Auto is the address if the configuration names none: a Unix socket in a folder of the user, which no other
// user may enter. Clients find it by themselves. Windows has it at 127.0.0.1:9470.
const Auto Address = "auto"

// resolve returns the addresses that an address stands for. A server listens at the first; a client tries all.
func (a Address) resolve() []Address {
	if a != Auto {
		return []Address{a}
	}
	return automatic()
}

// split returns the network and address for package net.
func (a Address) split() (network, address string) {
	if path, ok := strings.CutPrefix(string(a), "unix:"); ok {
		return "unix", path
	}
	return "tcp", string(a)
}

// Listen opens the address. Only the owner and group of the process may use a Unix socket. Listen replaces a socket
// that a dead process left behind.
func Listen(ctx context.Context, a Address) (net.Listener, error) {
	own := a.resolve()[0]
	network, address := own.split()
	if network == "tcp" {
		return new(net.ListenConfig).Listen(ctx, network, address)
	}
	if a == Auto {
		if err := claim(filepath.Dir(address)); err != nil {
			return nil, err
		}
	}
	return listenUnix(ctx, address)
}

func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if err := clear(ctx, path); err != nil {
		return nil, err
	}
	config := net.ListenConfig{Control: private} // the socket is never open to others, not even before Chmod
	l, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o660); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// clear removes a socket without a listener.
func clear(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("listen unix %s: exists and is not a socket", path)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
		return fmt.Errorf("listen unix %s: another process listens there", path)
	}
	return os.Remove(path)
}

// Client sends requests to a running proxy. It is safe for concurrent use.
type Client struct {
	address Address
	token   string
	http    http.Client
}

// maxAnswer is the size in bytes of the largest answer that a Client reads: ten times the largest page of sessions.
const maxAnswer = 64 << 20

// NewClient returns a client of the server at an address. The token may be empty.
func NewClient(a Address, token string) *Client {
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // the token is for this server
	return &Client{
		address: a.resolve()[0], token: token, http: http.Client{Transport: a.transport(), CheckRedirect: stay},
	}
}

// dialTime bounds the steps of a connection to a server.
const dialTime = 5 * time.Second

// transport returns the transport of requests to base.
func (a Address) transport() *http.Transport {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return a.dial(ctx) }
	if a.secure() {
		dial = (&net.Dialer{Timeout: dialTime}).DialContext
	}
	return &http.Transport{DialContext: dial, TLSHandshakeTimeout: dialTime, DisableCompression: true}
}

// base returns the URL before the paths of requests. Only a server behind TLS hears its name.
func (a Address) base() string {
	if a.secure() {
		return string(a)
	}
	return "http://localhost"
}

func (a Address) secure() bool { return strings.HasPrefix(string(a), "https://") }

// dial connects to the first of the addresses where a server listens. The error is that of the first address.
func (a Address) dial(ctx context.Context) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTime}
	var first error
	for _, at := range a.resolve() {
		network, address := at.split()
		if network == "tcp" {
			address = reachable(address)
		}
		conn, err := dialer.DialContext(ctx, network, address)
		if err == nil {
			return conn, nil
		}
		first = cmp.Or(first, err)
	}
	return nil, first
}

// reachable turns a wildcard listening address into the loopback address.
func reachable(address string) string {
	listening, err := netip.ParseAddrPort(address)
	if err != nil || !listening.Addr().IsUnspecified() {
		return address
	}
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if listening.Addr().Is6() {
		loopback = netip.IPv6Loopback()
	}
	return netip.AddrPortFrom(loopback, listening.Port()).String()
}

// Get requests a path and decodes the JSON answer into out.
func (c *Client) Get(ctx context.Context, path string, out any) error {
	return c.do(ctx, http.MethodGet, path, nil, out)
}

// Post sends in as JSON to a path and decodes the answer into out. With nil, any JSON will do.
func (c *Client) Post(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return c.do(ctx, http.MethodPost, path, body, out)
}

// StatusError is an answer with a status other than 200.
type StatusError struct {
	Status int
	Text   string
	Body   []byte
}

// Error returns the proxy's error text.
func (e *StatusError) Error() string { return e.Text }

// Stream requests a path with an answer other than JSON. The caller reads it until its end, or until ctx is done.
func (c *Client) Stream(ctx context.Context, path string) (io.ReadCloser, error) {
	response, err := c.ask(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

func (c *Client) do(ctx context.Context, method, path string, body []byte, out any) error {
	response, err := c.ask(ctx, method, path, body)
	if err != nil {
		return err
	}
	text, err := c.read(response)
	if err != nil {
		return err
	}
	if out == nil {
		out = new(any)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("answer of the proxy at %s: %w", c.address, err)
	}
	return nil
}

// ask sends a request. A status other than 200 is an error.
func (c *Client) ask(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.address.base()+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(request)
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // no user typed the URL
	}
	if err != nil {
		return nil, fmt.Errorf("ask the proxy at %s: %w", c.address, err)
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	text, err := c.read(response)
	if err != nil {
		return nil, err
	}
	var why refusal
	if json.Unmarshal(text, &why) != nil || why.Error == "" {
		why.Error = response.Status
	}
	return nil, &StatusError{response.StatusCode, why.Error, text}
}

// read reads a whole answer.
func (c *Client) read(response *http.Response) ([]byte, error) {
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("ask the proxy at %s: %w", c.address, err)
	}
	return text, nil
}
