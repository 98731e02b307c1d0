package admin

import (
	"net/http"
	"time"
)

// Reloads is how the reloads of a process went.
type Reloads struct {
	Succeeded uint64    `json:"succeeded"`
	Failed    uint64    `json:"failed"`
	Last      time.Time `json:"last,omitzero"`   // of either kind
	Error     string    `json:"error,omitempty"` // why the last one failed; empty if it did not
	// Restart lists the keys that the file has other values of than the process, which only a restart puts in force.
	Restart []string `json:"restart,omitempty"`
}

func (s *Server) reloads(*http.Request) (Reloads, error) { return s.Reloads(), nil }

func (s *Server) reload(*http.Request, nothing) (Reloads, error) {
	if err := s.Reload("operator"); err != nil {
		return Reloads{}, notReloaded{err}
	}
	return s.Reloads(), nil
}

// notReloaded is why a configuration was not put into force.
type notReloaded struct{ error }

func (n notReloaded) Unwrap() error { return n.error }

// checkConfiguration tells of a file that was refused. That is no reason to send players elsewhere: the configuration
// before it is in force.
func (s *Server) checkConfiguration() Check {
	check := Check{Name: "configuration", OK: true}
	if why := s.Reloads().Error; why != "" {
		check.Detail = "the last reload failed, and the configuration before it is in force: " + why
	}
	return check
}

// Metrics of reloads.
var (
	reloadsDone = counter("config_reloads_total", "Reloads of the configuration.", "result")
	reloadGood  = gauge("config_last_reload_successful", "Whether the last reload succeeded; 1 before the first.")
	reloadTime  = gauge("config_last_reload_timestamp_seconds", "When the last reload was, in Unix time; 0 before the first.")
	reloadStale = gauge("config_needs_restart", "Keys that the file has other values of than the process, until a restart.")
)

func (out metricsOf) reloads(r Reloads) {
	out.count(reloadsDone, r.Succeeded, "success")
	out.count(reloadsDone, r.Failed, "failure")
	out.set(reloadGood, truth(r.Error == ""))
	last := 0.0
	if !r.Last.IsZero() {
		last = float64(r.Last.UnixMilli()) / 1000
	}
	out.set(reloadTime, last)
	out.set(reloadStale, float64(len(r.Restart)))
}
