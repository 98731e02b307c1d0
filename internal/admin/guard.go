package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// guard lets requests through that bring the token, if there is one. The rest is against web pages, which can make a
// browser on this machine send requests here: it refuses those that another site caused, and those whose Host is a
// name, since a site may have its name resolve to this address and so be the same site.
func (s *Server) guard(next http.Handler) http.Handler {
	sameSite := http.NewCrossOriginProtection().Handler(next)
	want := sha256.Sum256([]byte(s.Token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		got := sha256.Sum256([]byte(token))
		switch {
		case s.Token != "" && subtle.ConstantTimeCompare(got[:], want[:]) == 0:
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, http.StatusUnauthorized, "want the header Authorization: Bearer and admin.token")
		case s.Token == "" && !isPlain(r.Host):
			refuse(w, http.StatusForbidden, "want the proxy's address as Host, not a name")
		default:
			limitTime(w, writeTimeout)
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			sameSite.ServeHTTP(w, r)
		}
	})
}

// limitTime gives an answer so much time. One that cannot be limited, a test's, needs no limit.
func limitTime(w http.ResponseWriter, limit time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit))
}

// isPlain reports whether a Host header names no site: it is an address, or this very machine.
func isPlain(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	_, err := netip.ParseAddr(host)
	return err == nil || host == "localhost"
}
