package admin

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"tidegate/proxy/relay"
)

// TestBans adds, lists and removes a ban.
func TestBans(t *testing.T) {
	f := newFake("")
	want(t, f.ask(http.MethodPost, "/api/v1/bans", `{"prefix":"192.0.2.0/24","seconds":60,"reason":"cheats"}`), 200,
		`"prefix":"192.0.2.0/24"`, `"author":"operator"`, `"until"`)
	want(t, f.ask(http.MethodPost, "/api/v1/bans", `{"prefix":"2001:db8::1","author":"ann"}`), 200, `"ann"`)
	want(t, f.ask(http.MethodGet, "/api/v1/bans", ""), 200, `"total":2`, `"cheats"`)
	want(t, f.ask(http.MethodGet, "/api/v1/bans?search=CHEAT&limit=1", ""), 200, `"total":1`)
	for _, body := range []string{
		`{"prefix":"all"}`, `{"prefix":"192.0.2.1","seconds":-1}`, `{"prefix":"192.0.2.1","author":"tidegate"}`,
		`{"prefix":"192.0.2.1","reason":"` + strings.Repeat("x", maxBanText+1) + `"}`,
	} {
		want(t, f.ask(http.MethodPost, "/api/v1/bans", body), 400)
	}
	want(t, f.ask(http.MethodPost, "/api/v1/bans/remove", `{"prefix":"192.0.2.0/24"}`), 200)
	want(t, f.ask(http.MethodPost, "/api/v1/bans/remove", `{"prefix":"192.0.2.0/24"}`), 404, "not banned")
	want(t, f.ask(http.MethodPost, "/api/v1/bans/remove", `{"prefix":"?"}`), 400)
	want(t, f.ask(http.MethodGet, "/api/v1/bans", ""), 200, `"total":1`)
}

// TestTop asserts that a page of sessions is searched and sorted as asked.
func TestTop(t *testing.T) {
	f := newFake("")
	want(t, f.ask(http.MethodGet, "/api/v1/top?search=arena&sort=client_rtt&order=ascending&offset=100&limit=20", ""), 200,
		`"id":"c"`, `"total":50000`)
	asked := relay.RankSessions{Search: "arena", Sort: relay.ByClientRTT, Offset: 100, Limit: 20}
	if !reflect.DeepEqual(f.proxy.top, asked) {
		t.Errorf("asked for %+v, want %+v", f.proxy.top, asked)
	}
	for _, query := range []string{"sort=luck", "offset=-1", "limit=0", "limit=1001", "order=x&y=1"} {
		want(t, f.ask(http.MethodGet, "/api/v1/top?"+query, ""), 400)
	}
}

// TestRefused asserts that drops are listed by source.
func TestRefused(t *testing.T) {
	want(t, newFake("").ask(http.MethodGet, "/api/v1/refused", ""), 200,
		`{"sources":[{"address":"192.0.2.1","times":5,"drops":[{`, `"reason":"rate"`, `{"address":"10.0.0.5","times":1`)
}
