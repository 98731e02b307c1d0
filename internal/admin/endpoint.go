package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"time"

	"tidegate/internal/upstream"
	"tidegate/proxy"
	"tidegate/proxy/captures"
	"tidegate/proxy/relay"
)

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
