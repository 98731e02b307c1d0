package admin

import (
	"net/netip"
	"testing"

	"tidegate/internal/upstream"
	"tidegate/proxy"
)

func TestUpstreams(t *testing.T) {
	f := newFake("")
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"GET", "/api/v1/upstreams", "", 200, `{"upstreams":[{"name":"arena","servers":[` +
			`{"address":"10.0.0.5:19132","state":"up","sessions":3,"weight":1},` +
			`{"address":"10.0.0.6:19132","state":"down","cause":"timed-out","sessions":0,"weight":2}]}]}`},
		{"POST", "/api/v1/upstreams/arena/drain", `{"server":"10.0.0.5:19132"}`, 200, `{}`},
		{"GET", "/api/v1/upstreams", "", 200, `{"address":"10.0.0.5:19132","state":"draining"`},
		{"POST", "/api/v1/upstreams/arena/undrain", `{"server":"10.0.0.5:19132"}`, 200, `{}`},
		{"GET", "/api/v1/upstreams", "", 200, `{"address":"10.0.0.5:19132","state":"up"`},
		{"POST", "/api/v1/upstreams/arena/drain", ``, 400, `server \"\": want ip:port`},
		{"POST", "/api/v1/upstreams/arena/drain", `{"server":"10.0.0.9:1"}`, 404,
			"upstream arena, server 10.0.0.9:1: no such server in the upstream"},
		{"POST", "/api/v1/upstreams/void/drain", `{"server":"10.0.0.5:19132"}`, 404,
			"upstream void, server 10.0.0.5:19132: no such upstream"},
		{"POST", "/api/v1/upstreams/arena/transfer", `{"server":"10.0.0.5:19132"}`, 200, `{"sessions":3}`},
		{"POST", "/api/v1/upstreams/arena/transfer", `{"server":"10.0.0.9:1"}`, 404, "no such server in the upstream"},
		{"POST", "/api/v1/upstreams/arena/transfer", `{}`, 400, "want ip:port"},
		{"GET", "/metrics", "", 200, `tidegate_upstream_servers{state="down",upstream="arena"} 1`},
		{"GET", "/metrics", "", 200, `tidegate_upstream_sessions{upstream="arena"} 3`},
		{"GET", "/api/v1/config", "", 200, `{"toml":"[admin]\n"}`},
		{"GET", "/api/v1/config?format=toml", "", 400, `parameter \"format\": want one of []`},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) { want(t, f.ask(c.method, c.path, c.body), c.status, c.says) })
	}
}

// TestPortsAreOneUpstream checks that a listener with a thousand ports does not make a thousand time series.
func TestPortsAreOneUpstream(t *testing.T) {
	f := newFake("")
	server := []upstream.Status{{Addr: netip.MustParseAddrPort("10.0.0.5:8000"), Sessions: 2}}
	f.proxy.upstreams = []proxy.UpstreamStatus{{Name: "arena", Servers: server}, {Name: "arena:8001", Servers: server}}
	want(t, f.ask("GET", "/metrics", ""), 200,
		`tidegate_upstream_servers{state="up",upstream="arena"} 2`, `tidegate_upstream_sessions{upstream="arena"} 4`)
	server[0].State = upstream.Down
	want(t, f.ask("GET", "/readyz", ""), 503, `"no server is up: arena"`)
}
