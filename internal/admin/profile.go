package admin

import (
	"net/http"
	"net/http/pprof"
	"time"
)

// profileTime is the longest profile that is waited for.
const profileTime = 5 * time.Minute

// profiles adds Go's own profiles, for `go tool pprof`.
func profiles(mux *http.ServeMux) {
	for path, serve := range map[string]http.HandlerFunc{
		"/debug/pprof/":        pprof.Index,
		"/debug/pprof/cmdline": pprof.Cmdline,
		"/debug/pprof/profile": pprof.Profile,
		"/debug/pprof/symbol":  pprof.Symbol,
		"/debug/pprof/trace":   pprof.Trace,
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			limitTime(w, profileTime)
			serve(w, r)
		})
	}
}
