package admin

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tidegate/codec"
	"tidegate/proxy/relay"
	"tidegate/proxy/stats"
)

func TestSessions(t *testing.T) {
	f := newFake("")
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"GET", "/api/v1/sessions", "", 200, `{"sessions":[{"id":"c","state":"established",` +
			`"mode":"terminate","listener":"play","route":"arena",` +
			`"age_seconds":90,"client":{"address":"192.0.2.1:5000","protocol":"riptide-2.2",` +
			`"rtt_ms":20,"messages":7,"bytes":700,` +
			`"datagrams_sent":10,"datagrams_received":11,"resent":1,"lost":2,"dropped":3,"queued_bytes":4},` +
			`"server":{"address":"10.0.0.5:19132","protocol":"raknet","messages":0,`},
		{"GET", "/api/v1/sessions?limit=1", "", 200, `"next":"c"`},
		{"GET", "/api/v1/sessions?limit=0", "", 400, `limit \"0\": want 1 to 10000`},
		{"GET", "/api/v1/sessions?after=!", "", 400, `session \"!\": want an ID`},
		{"GET", "/api/v1/sessions/c", "", 200, `"id":"c"`},
		{"GET", "/api/v1/sessions/d", "", 404, `no such session`},
		{"GET", "/api/v1/sessions/0", "", 400, `session \"0\": want an ID`},
		{"POST", "/api/v1/sessions/c/kick", `{"text":"afk"}`, 200, `{}`},
		{"POST", "/api/v1/sessions/d/kick", ``, 404, `no such session`},
		{"POST", "/api/v1/sessions/c/kick", `{"test":"afk"}`, 400, `unknown field \"test\"`},
		{"POST", "/api/v1/sessions/c/transfer", `{"server":"10.0.0.6:19132"}`, 200, `{}`},
		{"POST", "/api/v1/sessions/c/transfer", ``, 200, `{}`},
		{"POST", "/api/v1/sessions/c/transfer", `{"server":"here"}`, 400, `server \"here\": want ip:port`},
		{"POST", "/api/v1/sessions/c/transfer", `{"server":"10.0.0.5:19132"}`, 409, `session cannot be moved`},
		{"POST", "/api/v1/sessions/d/transfer", ``, 404, `no such session`},
		{"GET", "/api/v1/sessions/c/record", "", 200, `"state":{"serial":"c"}}`},
		{"GET", "/api/v1/sessions/d/record", "", 404, `no such session`},
		{"POST", "/api/v1/sessions/c/take-out", "", 200, `{"record":"cmVjb3Jk"}`},
		{"POST", "/api/v1/sessions/d/take-out", "", 404, `no such session`},
		{"POST", "/api/v1/sessions/put-in", `{"record":"cmVjb3Jk"}`, 200, `{}`},
		{"POST", "/api/v1/sessions/put-in", `{"record":"b3RoZXI="}`, 409, `session cannot be taken in`},
		{"POST", "/api/v1/sessions/put-in", `{"record":"?"}`, 400, `record: illegal base64`},
		{"DELETE", "/api/v1/sessions/c", "", 405, `DELETE /api/v1/sessions/c: want GET`},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) { want(t, f.ask(c.method, c.path, c.body), c.status, c.says) })
	}
	if f.proxy.kicked != "afk" {
		t.Errorf("kicked with %q", f.proxy.kicked)
	}
	if want := []netip.AddrPort{netip.MustParseAddrPort("10.0.0.6:19132"), {}}; !slices.Equal(f.proxy.movedTo, want) {
		t.Errorf("moved to %v, want %v", f.proxy.movedTo, want)
	}
	f.ask("GET", "/api/v1/sessions?after=c&limit=7&listener=play&route=arena", "")
	want := relay.ListSessions{Listener: "play", Route: "arena", After: 12, Limit: 7}
	if !reflect.DeepEqual(f.proxy.query, want) {
		t.Errorf("asked for %+v, want %+v", f.proxy.query, want)
	}
}

// TestRelayedSession asserts that a relayed session has datagrams: each of its messages is one.
func TestRelayedSession(t *testing.T) {
	s := fakeSession
	s.Relayed, s.ClientStats, s.FromUpstream = true, codec.Stats{}, stats.Traffic{Messages: 5, Bytes: 50}
	got := sessionOf(&s)
	if got.Client.Received != 7 || got.Client.Sent != 5 || got.Server.Received != 5 || got.Server.Sent != 7 {
		t.Errorf("got %+v, want 7 datagrams up and 5 down", got)
	}
}

// TestRoundTripsAreReadable asserts that JSON has round trips of three decimals, not the last bits of a float.
func TestRoundTripsAreReadable(t *testing.T) {
	s := fakeSession
	s.ClientStats.RTT = 128_039
	if text, err := json.Marshal(sessionOf(&s)); err != nil || !strings.Contains(string(text), `"rtt_ms":0.128,`) {
		t.Errorf("%s, %v", text, err)
	}
}
