package admin

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"reflect"
	"slices"
	"strings"
	"time"

	"tidegate/internal/upstream"
	"tidegate/proxy"
	"tidegate/proxy/captures"
	"tidegate/proxy/relay"
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

// endpoint is one method of one path of the API.
type endpoint struct {
	method, path string
	query        []string     // allowed parameters
	request      reflect.Type // of the body; nil: no body
	response     reflect.Type // nil: a file
	serve        http.HandlerFunc
}

// get returns an endpoint for a question. Out defines the JSON answer; query are the allowed parameters.
func get[Out any](path string, tell func(*http.Request) (Out, error), query ...string) endpoint {
	return endpoint{
		method: http.MethodGet, path: path, query: query, response: reflect.TypeFor[Out](),
		serve: withTimeout(func(w http.ResponseWriter, r *http.Request) {
			var out Out
			err := checkQuery(r, query)
			if err == nil {
				out, err = tell(r)
			}
			answer(w, out, err)
		}),
	}
}

// post returns an endpoint for a command. The body is In as JSON; an empty body means {}.
func post[In, Out any](path string, do func(*http.Request, In) (Out, error)) endpoint {
	return endpoint{
		method: http.MethodPost, path: path, request: reflect.TypeFor[In](), response: reflect.TypeFor[Out](),
		serve: withTimeout(func(w http.ResponseWriter, r *http.Request) {
			var in In
			if err := read(r, &in); err != nil {
				answer(w, in, err)
				return
			}
			out, err := do(r, in)
			answer(w, out, err)
		}),
	}
}

// withTimeout bounds the time in which a handler asks the loops.
func withTimeout(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), askTime)
		defer cancel()
		serve(w, r.WithContext(ctx))
	}
}

const askTime = 10 * time.Second

// checkQuery rejects unknown parameters, since they are likely typing errors.
func checkQuery(r *http.Request, known []string) error {
	for name := range r.URL.Query() {
		if !slices.Contains(known, name) {
			return badRequest{fmt.Errorf("parameter %q: want one of %q", name, known)}
		}
	}
	return nil
}

// nothing is the empty JSON object {}.
type nothing struct{}

// read parses a request's body. Unknown fields are an error.
func read(r *http.Request, in any) error {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(in); err != nil && !errors.Is(err, io.EOF) {
		return badRequest{fmt.Errorf("request body: %w", err)}
	}
	return nil
}

// badRequest is an error in the request.
type badRequest struct{ error }

func (m badRequest) Unwrap() error { return m.error }

// answer writes an endpoint's result.
func answer(w http.ResponseWriter, out any, err error) {
	if err != nil {
		refuse(w, statusOf(err), err.Error())
		return
	}
	write(w, http.StatusOK, out)
}

// refusal is the JSON of every answer with a status other than 200.
type refusal struct {
	Error string `json:"error"`
}

func refuse(w http.ResponseWriter, status int, text string) { write(w, status, refusal{text}) }

func write(w http.ResponseWriter, status int, out any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(out) // an error means that the client is gone
}

// statusOf returns the HTTP status of an error.
func statusOf(err error) int {
	var wrong badRequest
	var faulty notReloaded
	switch {
	case errors.As(err, &wrong):
		return http.StatusBadRequest
	case errors.As(err, &faulty):
		return http.StatusUnprocessableEntity
	case errors.Is(err, relay.ErrNoSession), errors.Is(err, proxy.ErrNoUpstream), errors.Is(err, proxy.ErrNoRoute),
		errors.Is(err, upstream.ErrUnknown), errors.Is(err, captures.ErrNothingRecorded), errors.Is(err, errNoBan):
		return http.StatusNotFound
	case errors.Is(err, relay.ErrEnding), errors.Is(err, relay.ErrNotMovable), errors.Is(err, captures.ErrCaptures),
		errors.Is(err, relay.ErrTravel), errors.Is(err, relay.ErrEnded),
		errors.Is(err, ErrNoUpgrade), errors.Is(err, ErrNoFleet), errors.Is(err, captures.ErrNotRecording):
		return http.StatusConflict
	case errors.Is(err, proxy.ErrStopped), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
