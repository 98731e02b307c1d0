package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"tidegate/internal/door"
)

// guard passes requests that carry the token, if there is one. It also protects against web pages, which can make a
// browser on this machine send requests here. It refuses requests of every method that another site caused, since a
// GET may begin a capture or a profile. And it refuses requests with a name as Host: a site may resolve its own name to
// this address, and would then count as the same site.
func (s *Server) guard(next http.Handler) http.Handler {
	sameOrigin := http.NewCrossOriginProtection().Handler(next) // for browsers that do not send Sec-Fetch-Site
	want := sha256.Sum256([]byte(s.Token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		got := sha256.Sum256([]byte(token))
		switch {
		case isDashboard(r):
			toDashboard(w, r)
		case s.Token != "" && subtle.ConstantTimeCompare(got[:], want[:]) == 0:
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.Header().Set("Connection", "close")
			refuse(w, http.StatusUnauthorized, "missing or wrong token: send the header Authorization: Bearer with admin.token")
		case s.Token == "" && !isAddress(r.Host):
			refuse(w, http.StatusForbidden, "want the proxy's address as Host, not a name")
		case fromOtherSite(r):
			refuse(w, http.StatusForbidden, "want a request that no other web site caused")
		default:
			// The connection stays until the answer is complete.
			if c, ok := r.Context().Value(connKey{}).(*door.Conn); ok {
				c.Keep()
			}
			limitTime(w, writeTimeout)
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			sameOrigin.ServeHTTP(w, r)
		}
	})
}

// fromOtherSite reports whether a browser says that a page of another site caused the request. Health checks tell
// nothing and do nothing, so any page may ask for them.
func fromOtherSite(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "same-origin" && site != "none" && r.URL.Path != "/livez" && r.URL.Path != "/readyz"
}

// limitTime sets the time limit of an answer. It ignores a failure: a test's answer has no limit.
func limitTime(w http.ResponseWriter, limit time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit))
}

// isAddress reports whether a Host header is an address or "localhost", and so names no web site.
func isAddress(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	_, err := netip.ParseAddr(host)
	return err == nil || host == "localhost"
}

// Front serves the dashboard at a local port, and passes its requests on to an admin server. So a browser reaches an
// admin server that listens at a Unix socket, or wants a token that the browser does not have.
//
// A link carries a key that works once. The page trades it for a token of its own, which each request then carries in
// a header. Other users of the machine, and pages of other sites, have neither.
type Front struct {
	host  string       // of this front, as the browser sends it
	used  func(string) // is called with the link for the next browser, after a link was used
	proxy http.Handler

	mu     sync.Mutex
	key    string            // of the next link
	tokens map[[32]byte]bool // hashes of the tokens of pages
}

// maxTokens bounds the pages that a Front knows. Only holders of a link can reach it.
const maxTokens = 1000

// NewFront returns a Front of an admin server for a listening address. used may be nil.
func NewFront(c *Client, host string, used func(link string)) *Front {
	f := &Front{host: host, used: used, tokens: make(map[[32]byte]bool), key: rand.Text()}
	base, _ := url.Parse(c.address.base()) // it was read before
	f.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(base)
			for _, name := range []string{"Authorization", "Cookie", "Origin", "Referer"} {
				r.Out.Header.Del(name)
			}
			for name := range r.Out.Header {
				if strings.HasPrefix(name, "Sec-") { // checked here
					r.Out.Header.Del(name)
				}
			}
			if c.token != "" {
				r.Out.Header.Set("Authorization", "Bearer "+c.token)
			}
		},
		Transport:     c.address.transport(),
		FlushInterval: -1, // events and captures are passed on at once
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			refuse(w, http.StatusBadGateway, "ask the proxy: "+err.Error())
		},
	}
	return f
}

// Link returns the address of the dashboard, with a key that works once.
func (f *Front) Link() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return "http://" + f.host + "/dashboard/#key=" + f.key
}

// ServeHTTP answers one request of a browser.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Host != f.host:
		refuse(w, http.StatusForbidden, "want the Host "+f.host)
	case isDashboard(r):
		toDashboard(w, r)
	case fromOtherSite(r) || r.Header.Get("Origin") != "" && r.Header.Get("Origin") != "http://"+f.host:
		refuse(w, http.StatusForbidden, "want a request that no other web site caused")
	case r.Method == http.MethodPost && r.URL.Path == "/login":
		f.login(w, r)
	case !f.knows(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")):
		refuse(w, http.StatusUnauthorized, "open the newest link that `tidegate dashboard` printed: each link works once")
	default:
		f.proxy.ServeHTTP(w, r)
	}
}

func (f *Front) knows(token string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tokens[sha256.Sum256([]byte(token))]
}

// login trades the key of a link for a token.
func (f *Front) login(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Key string `json:"key"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&in)
	token, ok := f.trade(in.Key)
	if err != nil || !ok {
		refuse(w, http.StatusUnauthorized, "this link was used: open the newest one")
		return
	}
	write(w, http.StatusOK, struct {
		Token string `json:"token"`
	}{token})
	if f.used != nil {
		f.used(f.Link())
	}
}

// trade returns a new token for the key, which then is used up.
func (f *Front) trade(key string) (token string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if subtle.ConstantTimeCompare([]byte(key), []byte(f.key)) == 0 || len(f.tokens) >= maxTokens {
		return "", false
	}
	token, f.key = rand.Text(), rand.Text()
	f.tokens[sha256.Sum256([]byte(token))] = true
	return token, true
}
