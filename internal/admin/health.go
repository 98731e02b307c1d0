package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"tidegate/proxy"
	"tidegate/proxy/relay"
)

// patience is the longest wait for a loop: a loop turns every few milliseconds even under a flood.
const patience = 2 * time.Second

// Health is the JSON of /livez and /readyz.
type Health struct {
	OK     bool    `json:"ok"`
	Checks []Check `json:"checks"`
}

// Check is the result of one health check.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
	// Warning is what does not fail the check, but an operator should know.
	Warning string `json:"warning,omitempty"`
}

// live answers whether the process works: every loop answers. A loop that has ended in order also counts as live.
func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	loops, _ := s.checkLoops(r.Context())
	writeHealth(w, append([]Check{loops}, s.checkFleet()...)...)
}

// ready answers whether clients can be sent here.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	loops, figures := s.checkLoops(r.Context())
	admission := Check{Name: "admission", OK: !figures.Draining && loops.Detail == ""}
	if !admission.OK {
		admission.Detail = "the proxy admits no new sessions"
	}
	all := []Check{loops, admission, s.checkUpstreams(), s.checkConfiguration()}
	writeHealth(w, append(all, s.checkFleet()...)...)
}

func (s *Server) checkLoops(ctx context.Context) (Check, relay.Figures) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	figures, err := s.Proxy.Figures(ctx)
	check := Check{Name: "loops", OK: err == nil || errors.Is(err, proxy.ErrStopped)}
	if err != nil {
		check.Detail = err.Error()
	}
	return check, figures
}

// writeHealth answers 200 if every check passed, and 503 otherwise.
func writeHealth(w http.ResponseWriter, checks ...Check) {
	status, health := http.StatusOK, Health{OK: true, Checks: checks}
	for _, c := range checks {
		if !c.OK {
			status, health.OK = http.StatusServiceUnavailable, false
		}
	}
	write(w, status, health)
}
