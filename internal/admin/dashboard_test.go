package admin

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestDashboardIsWhole asserts that each file of the dashboard is served with the policy and its type, that files refer
// only to files that exist, and that none asks another site.
func TestDashboardIsWhole(t *testing.T) {
	f := newFake("0123456789abcdef") // the files need no token
	refers := regexp.MustCompile(`(?:href|src)="([\w./]+)"|from '([\w./]+)'`)
	for name, file := range assets {
		w := f.ask(http.MethodGet, "/dashboard/"+name, "")
		if w.Code != http.StatusOK || w.Header().Get("Content-Security-Policy") != dashboardPolicy ||
			w.Header().Get("Content-Type") != file.kind || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d, %v", name, w.Code, w.Header())
		}
		text := w.Body.String()
		folder := name[:strings.LastIndexByte(name, '/')+1]
		for _, match := range refers.FindAllStringSubmatch(text, -1) {
			to := path.Join(folder, match[1]+match[2])
			if assets[to].text == nil && !strings.HasPrefix(name, "third_party/") {
				t.Errorf("%s refers to %s, which does not exist", name, to)
			}
		}
		if strings.HasPrefix(name, "third_party/") {
			continue // its only address is in a comment
		}
		for _, word := range []string{"https://", "innerHTML", "eval(", "style=", "document.write", " onclick="} {
			if strings.Contains(text, word) {
				t.Errorf("%s has %q", name, word)
			}
		}
	}
	if len(assets) < 15 {
		t.Errorf("only %d files", len(assets))
	}
	for _, name := range []string{"third_party/uplot/LICENSE", "nothing.js", "../admin.go"} {
		if w := f.ask(http.MethodGet, "/dashboard/"+name, ""); w.Code == http.StatusOK {
			t.Errorf("%s is served", name)
		}
	}
	tag := f.ask(http.MethodGet, "/dashboard/", "").Header().Get("ETag")
	want(t, f.ask(http.MethodGet, "/dashboard/", "", "If-None-Match", tag), http.StatusNotModified)
	want(t, f.ask(http.MethodGet, "/", ""), http.StatusFound)
}

// TestDashboardPolicyIsStrict asserts that no page may run inline code, load from elsewhere, or be framed.
func TestDashboardPolicyIsStrict(t *testing.T) {
	for _, part := range []string{
		"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'",
		"form-action 'none'", "connect-src 'self'",
	} {
		if !strings.Contains(dashboardPolicy, part) {
			t.Errorf("the policy lacks %s", part)
		}
	}
	for _, part := range []string{"unsafe", "http:", "https:", "*", "data:"} {
		if strings.Contains(dashboardPolicy, part) {
			t.Errorf("the policy has %s", part)
		}
	}
}

// front is a Front of a fake at a real listener, with the links that it prints.
func front(t *testing.T, token string) (f *Front, links *[]string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- newFake(token).Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	links = new([]string)
	client := NewClient(Address(l.Addr().String()), token)
	return NewFront(client, "127.0.0.1:9480", func(link string) { *links = append(*links, link) }), links
}

// ask sends a request to a front. headers are pairs of name and value.
func (f *Front) ask(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	return askAt(f, f.host, method, path, body, headers)
}

// TestFrontTradesEachLinkOnce opens a link, uses its token, and asserts that nothing else gets in.
func TestFrontTradesEachLinkOnce(t *testing.T) {
	const token = "0123456789abcdef" // of the admin server; no browser gets it
	f, links := front(t, token)
	_, key, _ := strings.Cut(f.Link(), "#key=")
	want(t, f.ask("GET", "/dashboard/", ""), 200, "Tidegate")
	want(t, f.ask("GET", "/api/v1/version", ""), 401, "newest link")
	want(t, f.ask("GET", "/api/v1/version", "", "Authorization", "Bearer "+token), 401)
	want(t, f.ask("POST", "/login", `{"key":"guess"}`), 401)
	want(t, f.ask("POST", "/login", `{"key":""}`), 401)
	want(t, f.ask("POST", "/login", `{"key":"`+key+`"}`, "Origin", "http://evil.example"), 403)
	want(t, f.ask("POST", "/login", `{"key":"`+key+`"}`, "Sec-Fetch-Site", "same-site"), 403)
	answer := f.ask("POST", "/login", `{"key":"`+key+`"}`, "Sec-Fetch-Site", "same-origin", "Origin", "http://"+f.host)
	want(t, answer, 200, `"token":"`)
	if strings.Contains(answer.Body.String(), token) {
		t.Error("the browser gets the admin server's token")
	}
	own := regexp.MustCompile(`"token":"(\w+)"`).FindStringSubmatch(answer.Body.String())[1]
	bearer := []string{"Authorization", "Bearer " + own}
	want(t, f.ask("GET", "/api/v1/version", "", bearer...), 200, `"version":"1.2.3"`)
	want(t, f.ask("POST", "/api/v1/sessions/c/kick", `{}`, append(bearer, "Sec-Fetch-Site", "same-origin")...), 200)
	want(t, f.ask("GET", "/api/v1/version", "", append(bearer, "Sec-Fetch-Site", "cross-site")...), 403)
	want(t, f.ask("GET", "/api/v1/version", "", append(bearer, "Host", "evil.example:9480")...), 403)
	want(t, f.ask("GET", "/dashboard/", "", "Host", "evil.example:9480"), 403)
	want(t, f.ask("POST", "/login", `{"key":"`+key+`"}`), 401, "was used")
	if len(*links) != 1 || (*links)[0] != f.Link() || strings.HasSuffix(f.Link(), key) {
		t.Errorf("links %v, now %s", *links, f.Link())
	}
}

// TestFrontWithoutAProxy asserts that a proxy that has ended is an error that a page can show.
func TestFrontWithoutAProxy(t *testing.T) {
	f := NewFront(NewClient(Address("unix:"+t.TempDir()+"/none.sock"), ""), "127.0.0.1:1", nil)
	_, key, _ := strings.Cut(f.Link(), "#key=")
	token, ok := f.trade(key)
	if !ok {
		t.Fatal("the link does not work")
	}
	want(t, f.ask("GET", "/api/v1/version", "", "Authorization", "Bearer "+token), http.StatusBadGateway, "ask the proxy")
}
