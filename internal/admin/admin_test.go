package admin

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/rs/zerolog"
)

// poor is a listener without file descriptors.
type poor struct{ net.Listener }

func (poor) Accept() (net.Conn, error) { return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE} }

// TestErrorLog checks that the log shows a failure to accept connections.
func TestErrorLog(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lines, log := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- New(Options{Proxy: newFake("").proxy, Log: zerolog.New(log)}).Serve(ctx, poor{l}) }()
	var line struct{ Level, Message, Error string }
	if err := json.NewDecoder(lines).Decode(&line); err != nil || line.Level != "warn" || line.Message == "" ||
		line.Error == "" {
		t.Errorf("%+v, %v", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }() // it is logged again
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	_ = log.Close()
}
