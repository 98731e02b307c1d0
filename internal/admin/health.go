package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"tidegate/proxy"
)

// patience is how long a loop may take to answer: it turns every few milliseconds even under a flood.
const patience = 2 * time.Second

// Health is the JSON of /livez and /readyz.
type Health struct {
	OK     bool    `json:"ok"`
	Checks []Check `json:"checks"`
}

// Check is one reason to be well or not.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}

// live tells whether to let the process be: every loop answers. One that has ended at its end is no reason to kill it.
func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	loops, _ := s.checkLoops(r.Context())
	tellHealth(w, loops)
}

// ready tells whether to send players here.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	loops, figures := s.checkLoops(r.Context())
	admission := Check{Name: "admission", OK: !figures.Draining && loops.Detail == ""}
	if !admission.OK {
		admission.Detail = "the proxy lets nobody in any more"
	}
	tellHealth(w, loops, admission, s.checkUpstreams(), s.checkConfiguration())
}

func (s *Server) checkLoops(ctx context.Context) (Check, proxy.Figures) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	figures, err := s.Proxy.Figures(ctx)
	check := Check{Name: "loops", OK: err == nil || errors.Is(err, proxy.ErrStopped)}
	if err != nil {
		check.Detail = err.Error()
	}
	return check, figures
}

// tellHealth answers 200 if all is well, and else 503.
func tellHealth(w http.ResponseWriter, checks ...Check) {
	status, health := http.StatusOK, Health{OK: true, Checks: checks}
	for _, c := range checks {
		if !c.OK {
			status, health.OK = http.StatusServiceUnavailable, false
		}
	}
	write(w, status, health)
}
