package admin

import (
	_ "embed"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"
)

// endpoints are the whole API. openapi.json describes each.
func (s *Server) endpoints() []endpoint {
	return []endpoint{
		get("/api/v1/version", s.version),
		get("/api/v1/sessions", s.listSessions, "listener", "route", "after", "limit"),
		get("/api/v1/sessions/{id}", s.showSession),
		post("/api/v1/sessions/{id}/kick", s.kickSession),
		post("/api/v1/sessions/{id}/transfer", s.transferSession),
		get("/api/v1/sessions/{id}/record", s.recordSession),
		post("/api/v1/sessions/{id}/take-out", s.takeOutSession),
		post("/api/v1/sessions/put-in", s.putInSession),
		get("/api/v1/top", s.top, "search", "sort", "order", "offset", "limit"),
		{method: http.MethodGet, path: "/api/v1/live", query: []string{"session"}, serve: s.stream},
		get("/api/v1/history", s.listPast),
		get("/api/v1/events", s.listEvents),
		get("/api/v1/limits", s.listLimits),
		get("/api/v1/bans", s.listBans, "search", "limit"),
		post("/api/v1/bans", s.addBan),
		post("/api/v1/bans/remove", s.removeBan),
		post("/api/v1/bans/sync", s.syncBans),
		get("/api/v1/refused", s.refused),
		get("/api/v1/fleet", s.fleet),
		get("/api/v1/fleet/bans", s.listFleetBans, "search", "limit"),
		get("/api/v1/fleet/servers", s.listFleetServers, "search", "limit", "differ"),
		get("/api/v1/fleet/sessions", s.listFleetSessions),
		get("/api/v1/why", s.why, "address"),
		{method: http.MethodGet, path: "/api/v1/capture", query: captureQuery, serve: s.capture},
		{method: http.MethodGet, path: "/api/v1/recording", query: recordingQuery, serve: s.recording},
		get("/api/v1/upstreams", s.listUpstreams),
		post("/api/v1/upstreams/{name}/drain", s.drainServer),
		post("/api/v1/upstreams/{name}/undrain", s.undrainServer),
		post("/api/v1/upstreams/{name}/transfer", s.transferServer),
		get("/api/v1/config", s.config),
		get("/api/v1/reload", s.reloads),
		post("/api/v1/reload", s.reload),
		get("/api/v1/upgrade", s.upgrades),
		post("/api/v1/upgrade", s.upgrade),
		post("/api/v1/drain", s.drain),
		post("/api/v1/fleet/drain", s.drainToFleet),
	}
}

// routes are the API, and the paths with formats that other programs define.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for _, e := range s.endpoints() {
		mux.HandleFunc(e.method+" "+e.path, e.serve)
	}
	mux.HandleFunc("GET /api/v1/openapi.json", describe)
	mux.HandleFunc("GET /livez", s.live)
	mux.HandleFunc("GET /readyz", s.ready)
	mux.Handle("GET /metrics", s.metrics())
	profiles(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if allowed := methodsOf(mux, r); len(allowed) > 0 {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			refuse(w, http.StatusMethodNotAllowed, r.Method+" "+r.URL.Path+": want "+strings.Join(allowed, " or "))
			return
		}
		refuse(w, http.StatusNotFound, "not found: "+r.Method+" "+r.URL.Path+"; /api/v1/openapi.json lists the paths")
	})
	return mux
}

// methodsOf returns the methods that a request's path has.
func methodsOf(mux *http.ServeMux, r *http.Request) (allowed []string) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := mux.Handler(other); pattern != "/" && pattern != "" {
			allowed = append(allowed, method)
		}
	}
	return allowed
}

// openapi is the description of the API.
//
//go:embed openapi.json
var openapi []byte

func describe(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openapi) // an error means that the client is gone
}

// profileTime is the time limit of a profile.
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
