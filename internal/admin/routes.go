package admin

import (
	_ "embed"
	"net/http"
)

// endpoints are all of the API. openapi.json describes each.
func (s *Server) endpoints() []endpoint {
	return []endpoint{
		get("/api/v1/version", s.version),
		get("/api/v1/sessions", s.listSessions, "listener", "route", "after", "limit"),
		get("/api/v1/sessions/{id}", s.showSession),
		post("/api/v1/sessions/{id}/kick", s.kickSession),
		post("/api/v1/sessions/{id}/transfer", s.transferSession),
		get("/api/v1/why", s.why, "address"),
		{method: http.MethodGet, path: "/api/v1/capture", query: captureQuery, serve: s.capture},
		get("/api/v1/upstreams", s.listUpstreams),
		post("/api/v1/upstreams/{name}/drain", s.drainServer),
		post("/api/v1/upstreams/{name}/undrain", s.undrainServer),
		post("/api/v1/upstreams/{name}/transfer", s.transferServer),
		get("/api/v1/config", s.config),
		get("/api/v1/reload", s.reloads),
		post("/api/v1/reload", s.reload),
		post("/api/v1/drain", s.drain),
	}
}

// routes are the API and what is not JSON for our own commands but in the form that others have fixed.
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
		refuse(w, http.StatusNotFound, "nothing is at "+r.Method+" "+r.URL.Path+"; /api/v1/openapi.json tells what there is")
	})
	return mux
}

// openapi is the description of the API.
//
//go:embed openapi.json
var openapi []byte

func describe(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openapi) // an error is the asker's, who has gone
}
