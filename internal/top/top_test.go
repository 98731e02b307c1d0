package top

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"tidegate/internal/admin"
)

// fakeProxy is an admin server with three players. Each of its streams has two events: the first one has no rates.
type fakeProxy struct {
	asked atomic.Int64
	away  int64 // a question that it does not answer
}

func (f *fakeProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/api/v1/live":
		if f.asked.Add(1) == f.away {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		for over := range 2 {
			fmt.Fprintf(w, `event: live`+"\n"+`data: {"at":"2027-01-15T08:00:0%dZ","over_seconds":%d,"sessions":3,`+
				`"from_clients":{"count":40},"drops":[{"name":"malformed","rate":10}]}`+"\n\n", over, over)
		}
	case "/api/v1/sessions":
		fmt.Fprint(w, `{"sessions":[{"client":{"rtt_ms":30},"server":{"rtt_ms":1.5}},{"client":{"rtt_ms":10}},{}]}`)
	}
}

// client returns a client of a fake proxy.
func (f *fakeProxy) client(t *testing.T) *admin.Client {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return admin.NewClient(admin.Address(server.Listener.Addr().String()), "")
}

// TestWatch takes samples of three streams, with a moment without an answer in between, as during an upgrade.
func TestWatch(t *testing.T) {
	f, lines := &fakeProxy{away: 2}, 0
	err := Watch(t.Context(), f.client(t), 2, func(l *admin.Live) error {
		lines++
		if got := strings.Fields(Line(l, l.At)); strings.Join(got, " ") != "0s 3 20.0 1.5 40 0.0 0 0.0 0.0 0.0 10.0" {
			t.Errorf("%q", got)
		}
		return nil
	})
	if err != nil || lines != 2 || f.asked.Load() != 3 {
		t.Errorf("%d lines of %d streams, %v", lines, f.asked.Load(), err)
	}
}

// TestWatchEnds asserts that a reader's error ends the watch, and that of a proxy which never answers.
func TestWatchEnds(t *testing.T) {
	full := errors.New("disk full")
	err := Watch(t.Context(), new(fakeProxy).client(t), 0, func(*admin.Live) error { return full })
	if !errors.Is(err, full) {
		t.Error(err)
	}
	absent := &fakeProxy{away: 1}
	if err := Watch(t.Context(), absent.client(t), 0, func(*admin.Live) error { return nil }); err == nil {
		t.Error("a proxy that refuses is watched")
	}
}
