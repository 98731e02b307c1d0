package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"

	"github.com/rs/zerolog"

	"tidegate/internal/door"
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

// TestStrangersLeaveRoom opens many silent connections. A reader of the live figures stays, and a request is answered.
func TestStrangersLeaveRoom(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- New(Options{Proxy: newFake("").proxy}).Serve(ctx, l) }()
	stream, err := http.Get("http://" + l.Addr().String() + "/api/v1/live")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 * door.Conns {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	answer, err := new(http.Transport).RoundTrip(httptest.NewRequest("GET", "http://"+l.Addr().String()+"/livez", nil))
	if err != nil || answer.StatusCode != 200 {
		t.Errorf("%v, %v", answer, err)
	}
	for range 2 { // the second event comes after all the connections
		if _, err := bufio.NewReader(stream.Body).ReadString('\n'); err != nil {
			t.Error(err)
		}
	}
	_ = stream.Body.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
