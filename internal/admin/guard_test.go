package admin

import (
	"net/http"
	"strings"
	"testing"
)

func TestGuard(t *testing.T) {
	const token = "0123456789abcdef"
	for _, c := range []struct {
		name, token string
		method      string
		headers     []string
		status      int
	}{
		{"no token is asked for", "", "GET", nil, 200},
		{"no token is asked for on the machine's name", "", "GET", []string{"Host", "localhost:9470"}, 200},
		{"IPv6", "", "GET", []string{"Host", "[::1]:9470"}, 200},
		{"a site whose name resolves to this machine", "", "GET", []string{"Host", "evil.example:9470"}, 403},
		{"a page of another site", "", "POST", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"a page of another site, in an old browser", "", "POST", []string{"Origin", "https://evil.example"}, 403},
		{"an image on a page of another site", "", "GET", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"a page of another host of the site", "", "GET", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"a page of the proxy's own", "", "GET", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"typed into a browser", "", "GET", []string{"Sec-Fetch-Site", "none"}, 200},
		{"the token is missing", token, "GET", nil, 401},
		{"the token is wrong", token, "GET", []string{"Authorization", "Bearer 0123456789abcdeF"}, 401},
		{"the token is a part", token, "GET", []string{"Authorization", "Bearer 0123"}, 401},
		{"the token is right", token, "GET", []string{"Authorization", "Bearer " + token}, 200},
		{"right token, by a name", token, "GET", []string{"Authorization", "Bearer " + token, "Host", "tide.example"}, 200},
		{"the token is right, from another site", token, "POST",
			[]string{"Authorization", "Bearer " + token, "Sec-Fetch-Site", "cross-site"}, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := "/api/v1/version"
			if c.method == http.MethodPost {
				path = "/api/v1/drain"
			}
			f := newFake(c.token)
			want(t, f.ask(c.method, path, "", c.headers...), c.status)
			if f.drained {
				t.Error("it was done all the same")
			}
		})
	}
}

// TestEverythingIsGuarded checks that no path answers without the token.
func TestEverythingIsGuarded(t *testing.T) {
	f := newFake("0123456789abcdef")
	for _, path := range []string{
		"/nowhere", "/livez", "/readyz", "/metrics", "/debug/pprof/", "/api/v1/openapi.json", "/api/v1/sessions",
	} {
		want(t, f.ask(http.MethodGet, path, ""), 401)
	}
}

// TestOtherSitesReachNothing checks that a page of another site causes no request but health checks, by any method.
func TestOtherSitesReachNothing(t *testing.T) {
	f := newFake("")
	for _, e := range f.endpoints() {
		path := strings.NewReplacer("{id}", "1", "{name}", "arena").Replace(e.path)
		want(t, f.ask(e.method, path, "", "Sec-Fetch-Site", "cross-site"), 403)
	}
	for path, status := range map[string]int{
		"/metrics": 403, "/debug/pprof/profile": 403, "/debug/pprof/trace": 403, "/api/v1/openapi.json": 403,
		"/livez": 200, "/readyz": 200,
	} {
		want(t, f.ask(http.MethodGet, path, "", "Sec-Fetch-Site", "cross-site"), status)
	}
}
