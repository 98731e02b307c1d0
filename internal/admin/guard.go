package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
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
