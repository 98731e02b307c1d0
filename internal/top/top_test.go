package top

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/admin"
)

// fakeProxy is an admin server with three players, whose counts grow with each question.
type fakeProxy struct {
	asked atomic.Int64
	away  atomic.Int64 // a question that it does not answer
}

func (f *fakeProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/metrics":
		n := f.asked.Add(1)
		if n == f.away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "tidegate_sessions{listener=\"a\",protocol=\"raknet\",state=\"established\"} 3\n"+
			"tidegate_dropped_total{listener=\"a\",reason=\"malformed\"} %d\n"+
			"tidegate_dropped_total{listener=\"a\",reason=\"banned\"} 0\n"+
			"tidegate_messages_total{listener=\"a\",protocol=\"raknet\",from=\"client\",mode=\"reliable\"} %d\n", 10*n, 40*n)
	case "/api/v1/upstreams":
		fmt.Fprint(w, `{"upstreams":[{"name":"arena","servers":[`+
			`{"address":"10.0.0.5:19132","state":"up","sessions":3,"weight":1}]}]}`)
	case "/api/v1/sessions":
		var all []string
		for i, id := range []string{"1", "2", "c"} {
			all = append(all, fmt.Sprintf(`{"id":%q,"state":"established","mode":"terminate","listener":"a","route":"arena",`+
				`"age_seconds":%d,"client":{"address":"192.0.2.%d:5000","protocol":"riptide-2.2","rtt_ms":%d,"messages":%d},`+
				`"server":{"address":"10.0.0.5:19132","protocol":"bedrock","rtt_ms":1.5}}`, id, 100-i, i+1, 30-10*i,
				20*f.asked.Load()))
		}
		fmt.Fprintf(w, `{"sessions":[%s]}`, strings.Join(all, ","))
	}
}

// client returns a client of a fake proxy.
func (f *fakeProxy) client(t *testing.T) *admin.Client {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return admin.NewClient(admin.Address(server.Listener.Addr().String()), "")
}

// TestRates asserts that counts become rates.
func TestRates(t *testing.T) {
	from := source{client: new(fakeProxy).client(t)}
	at := time.Unix(1_800_000_000, 0)
	if _, err := from.read(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	s, err := from.read(t.Context(), at.Add(time.Second))
	if err != nil || s.Sessions != 3 || s.Dropped != 10 || s.FromClients.Count != 40 || len(s.Drops) != 1 ||
		s.Drops[0].Reason != "malformed" || s.Client.RTT != 20 {
		t.Errorf("sample %+v: %v", s, err)
	}
}

// TestWatch takes one sample, after a moment without an answer, as during an upgrade.
func TestWatch(t *testing.T) {
	var lines []string
	f := new(fakeProxy)
	f.away.Store(2)
	err := Watch(t.Context(), f.client(t), 1, func(s *Sample) error {
		lines = append(lines, s.Line(s.At))
		return nil
	})
	if err != nil || len(lines) != 1 || !strings.HasPrefix(lines[0], "0s          3    20.0    1.5") {
		t.Errorf("%q, %v", lines, err)
	}
}
