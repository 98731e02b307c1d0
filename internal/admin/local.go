package admin

import (
	"bytes"
	"io"
	"net/http"
)

// NewLocalClient returns a client of a server in this process, without a socket. Its streams come as a whole.
func NewLocalClient(s *Server) *Client {
	return &Client{address: "this process", token: s.Token, http: http.Client{Transport: local{s}}}
}

// local implements http.RoundTripper by a handler.
type local struct{ http.Handler }

// RoundTrip implements http.RoundTripper.
func (l local) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &buffered{header: make(http.Header), status: http.StatusOK}
	l.ServeHTTP(w, r)
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// buffered is a http.ResponseWriter that keeps the answer.
type buffered struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (b *buffered) Header() http.Header { return b.header }

// WriteHeader implements http.ResponseWriter.
func (b *buffered) WriteHeader(status int) { b.status = status }

// Write implements http.ResponseWriter.
func (b *buffered) Write(text []byte) (int, error) { return b.body.Write(text) }
