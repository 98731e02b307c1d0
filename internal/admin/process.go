package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"tidegate/proxy"
	"tidegate/proxy/relay"
)

// Version describes the running program.
type Version struct {
	Version string    `json:"version"`
	Go      string    `json:"go"`
	System  string    `json:"system"` // operating system and processor, "linux/amd64"
	Started time.Time `json:"started"`
}

func (s *Server) version(*http.Request) (Version, error) {
	return Version{s.Version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, s.started.UTC()}, nil
}

// Configuration is the running configuration.
type Configuration struct {
	TOML string `json:"toml"` // a whole file, with every default and without secrets
	// where the values of listeners and upstreams come from, by key, if they may have their own: "line 12"
	Origins map[string]string `json:"origins,omitempty"`
}

func (s *Server) config(*http.Request) (Configuration, error) {
	return s.Config(), nil
}

// action begins the log line of an operator's action, with the address of the request. A Unix socket has none: only
// this user can reach it.
func (s *Server) action(r *http.Request) *zerolog.Event {
	line := s.Log.Info()
	if from, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		return line.Stringer("from", from)
	}
	return line.Str("from", "Unix socket")
}

// drain answers at once: the goodbyes of the sessions take time.
func (s *Server) drain(r *http.Request, _ nothing) (nothing, error) {
	s.action(r).Msg("proxy ended by an operator")
	s.Drain()
	return nothing{}, nil
}

// ErrNoUpgrade says that this system has no upgrades.
var ErrNoUpgrade = errors.New("upgrades without a restart are possible on Linux only")

// Upgrade is the state of the process's upgrades. After a successful one, another process answers.
type Upgrade struct {
	Running bool   `json:"running"`
	Error   string `json:"error,omitempty"` // of the last upgrade; empty if none failed
}

func (s *Server) upgrade(r *http.Request, _ nothing) (nothing, error) {
	s.action(r).Msg("upgrade asked for by an operator")
	return nothing{}, s.StartUpgrade()
}

func (s *Server) upgrades(*http.Request) (Upgrade, error) { return s.Upgrades(), nil }

// Reloads are the results of the process's reloads.
type Reloads struct {
	Succeeded uint64    `json:"succeeded"`
	Failed    uint64    `json:"failed"`
	Last      time.Time `json:"last,omitzero"`   // last attempt, successful or not
	Error     string    `json:"error,omitempty"` // of the last attempt; empty if it succeeded
	// Restart lists the changed keys in the file that need a restart.
	Restart []string `json:"restart,omitempty"`
	// Changed lists the keys that the last successful reload changed, at most 200.
	Changed []KeyChange `json:"changed,omitempty"`
}

// KeyChange is a key that a reload changed.
type KeyChange struct {
	Key string `json:"key"`           // with the name of its table
	Old string `json:"old,omitempty"` // as TOML; absent: the configuration did not have the key
	New string `json:"new,omitempty"` // as TOML; absent: the configuration does not have the key
}

func (s *Server) reloads(*http.Request) (Reloads, error) { return s.Reloads(), nil }

func (s *Server) reload(*http.Request, nothing) (Reloads, error) {
	switch err := s.Reload("operator"); {
	case errors.Is(err, relay.ErrEnded): // the file may be right
		return Reloads{}, err
	case err != nil:
		return Reloads{}, notReloaded{err}
	}
	return s.Reloads(), nil
}

// notReloaded is the error of a rejected configuration.
type notReloaded struct{ error }

func (n notReloaded) Unwrap() error { return n.error }

// checkConfiguration reports a rejected file as a detail. The check still passes, since the earlier configuration stays
// in force.
func (s *Server) checkConfiguration() Check {
	check := Check{Name: "configuration", OK: true}
	if why := s.Reloads().Error; why != "" {
		check.Detail = "the last reload failed; the earlier configuration is in force: " + why
	}
	return check
}

// Metrics of reloads.
var (
	reloadsDone = counter("config_reloads_total", "Reloads of the configuration.", "result")
	reloadGood  = gauge("config_last_reload_successful", "1 if the last reload succeeded, or before the first.")
	reloadTime  = gauge("config_last_reload_timestamp_seconds", "Unix time of the last reload; 0 before the first.")
	reloadStale = gauge("config_needs_restart", "Changed keys in the file that need a restart.")
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

// Bounds of the time line.
const (
	maxEvents    = 512
	maxEventText = 200 // bytes
)

// Event is the JSON of one event of the time line.
type Event struct {
	At   time.Time `json:"at"`
	Kind string    `json:"kind"` // "start", "server", "reload", "upgrade", "flood", "ban", "drain", "limit" or "disk"
	Bad  bool      `json:"bad"`  // an operator should look
	Text string    `json:"text"`
}

// EventList is the JSON of the time line, oldest first.
type EventList struct {
	Events []Event `json:"events"`
}

// Events is the time line of a process: its last 512 events, at most some 150 KiB. The zero value and nil are ready to
// use; nil keeps nothing. It is safe for concurrent use, and Add never waits for a reader's connection.
type Events struct {
	mu   sync.Mutex
	ring []Event
	next int
}

// Add adds an event of this moment. A long text is cut.
func (e *Events) Add(kind string, bad bool, format string, args ...any) {
	if e == nil {
		return
	}
	text := fmt.Sprintf(format, args...)
	one := Event{time.Now().UTC(), kind, bad, text[:min(len(text), maxEventText)]}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.ring) < maxEvents {
		e.ring = append(e.ring, one)
		return
	}
	e.ring[e.next] = one
	e.next = (e.next + 1) % maxEvents
}

// List returns the events, oldest first.
func (e *Events) List() []Event {
	if e == nil {
		return []Event{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return append(append([]Event{}, e.ring[e.next:]...), e.ring[:e.next]...)
}

func (s *Server) listEvents(*http.Request) (EventList, error) { return EventList{s.Events.List()}, nil }
