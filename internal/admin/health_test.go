package admin

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tidegate/internal/upstream"
	"tidegate/proxy"
)

func TestHealth(t *testing.T) {
	silent := errors.New("a loop does not answer")
	for _, c := range []struct {
		name        string
		change      func(*fake)
		live, ready int
		says        string
	}{
		{"well", func(*fake) {}, 200, 200, `{"name":"admission","ok":true}`},
		{"draining", func(f *fake) { f.proxy.figures.Draining = true }, 200, 503,
			`"detail":"the proxy admits no new sessions"`},
		{"over", func(f *fake) { f.proxy.err = proxy.ErrStopped }, 200, 503, `"detail":"the proxy has stopped"`},
		{"stuck", func(f *fake) { f.proxy.err = silent }, 503, 503,
			`{"name":"loops","ok":false,"detail":"a loop does not answer"}`},
		{"half of the servers", func(f *fake) { f.proxy.upstreams[0].Servers[1].State = upstream.Up }, 200, 200,
			`{"name":"upstreams","ok":true}`},
		{"no server", func(f *fake) { f.proxy.upstreams[0].Servers[0].State = upstream.Draining }, 200, 503,
			`{"name":"upstreams","ok":false,"detail":"no server is up: arena"}`},
		{"refused file", func(f *fake) { f.state.Error = "want this" }, 200, 200,
			`{"name":"configuration","ok":true,` +
				`"detail":"the last reload failed; the earlier configuration is in force: want this"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake("")
			c.change(f)
			want(t, f.ask("GET", "/livez", ""), c.live)
			want(t, f.ask("GET", "/readyz", ""), c.ready, c.says)
		})
	}
}

func TestReload(t *testing.T) {
	f := newFake("")
	f.state = Reloads{
		Succeeded: 2,
		Failed:    1,
		Last:      time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Restart:   []string{"log.level"},
	}
	const state = `{"succeeded":2,"failed":1,"last":"2026-01-02T03:04:05Z","restart":["log.level"]}`
	want(t, f.ask("GET", "/api/v1/reload", ""), 200, state)
	want(t, f.ask("POST", "/api/v1/reload", ""), 200, state)
	f.reload = errors.New("tidegate.toml:1:1: want more")
	want(t, f.ask("POST", "/api/v1/reload", ""), 422, `{"error":"tidegate.toml:1:1: want more"}`)
	want(t, f.ask("GET", "/metrics", ""), 200, `tidegate_config_reloads_total{result="success"} 2`,
		`tidegate_config_reloads_total{result="failure"} 1`, "tidegate_config_last_reload_successful 1",
		"tidegate_config_last_reload_timestamp_seconds 1.767323045e+09", "tidegate_config_needs_restart 1")
}

func TestDrain(t *testing.T) {
	f := newFake("")
	var log bytes.Buffer
	f.Log = zerolog.New(&log)
	want(t, f.ask("POST", "/api/v1/drain", ""), 200, "{}")
	if !f.drained {
		t.Error("nothing was drained")
	}
	if text := log.String(); !strings.Contains(text, `"from":"192.0.2.1:1234"`) { // the address of httptest's requests
		t.Errorf("the log does not name the operator's address: %s", text)
	}
}
