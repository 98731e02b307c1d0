package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"tidegate/internal/admin"
	"tidegate/internal/config"
	"tidegate/internal/filewatch"
	"tidegate/internal/fleet"
	"tidegate/internal/pause"
	"tidegate/internal/setup"
	"tidegate/proxy"
	"tidegate/proxy/relay"
	"tidegate/ratelimit"
)

// reloader applies a changed configuration file to a running proxy: the whole file or nothing.
type reloader struct {
	path      string
	loops     int
	secrets   setup.Secrets
	modules   *setup.Modules
	server    *proxy.Server
	ruleFiles *ruleFiles
	found     *discoverer
	bans      *ratelimit.Bans
	joins     *joinServers
	log       zerolog.Logger
	events    *admin.Events

	changing sync.Mutex // held during a reload, and during an upgrade: a successor must know all listeners

	mu      sync.Mutex // guards the fields below
	current *config.Config
	earlier []*config.Config // in force before, and with listeners that current does not have; the oldest first
	status  admin.Reloads
	stopped bool
}

// maxChanges bounds the changed keys that the API shows.
const maxChanges = 200

// reload reads the file again. An error changes nothing. Safe for concurrent use.
func (r *reloader) reload(cause string) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return fmt.Errorf("reload: %w", relay.ErrEnded)
	}
	manager.reloading()
	defer manager.ready()
	began := time.Now()
	fixed, err := r.apply()
	if errors.Is(err, relay.ErrEnded) {
		return err // after an upgrade, the new process has read the file
	}
	r.status.Last = began
	if err != nil {
		r.status.Failed++
		r.status.Error = err.Error()
		r.events.Add("reload", true, "configuration not reloaded (%s): %v", cause, err)
		r.log.Error().Str("cause", cause).Str("file", r.path).Err(err).
			Msg("configuration not reloaded; the old one stays in force")
		return err
	}
	r.status.Succeeded++
	r.status.Error, r.status.Restart = "", fixed
	event := r.log.Info()
	if len(fixed) > 0 {
		event = r.log.Warn().Strs("needs_restart", fixed)
	}
	r.events.Add("reload", false, "configuration reloaded (%s), %d keys changed", cause, len(r.status.Changed))
	event.Str("cause", cause).Str("file", r.path).Msg("configuration reloaded")
	return nil
}

func (r *reloader) apply() (fixed []string, err error) {
	next, warnings, err := setup.Load(r.path)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		r.log.Warn().Msg(w.Error())
	}
	if err := setup.CheckMachine(next); err != nil {
		return nil, err
	}
	ruled, err := setup.SettingsWithRules(next, r.loops, r.secrets)
	if err != nil {
		return nil, err
	}
	if err := r.modules.Add(ruled, next, r.loops); err != nil {
		return nil, err
	}
	warnInterpreted(r.log, r.modules)
	r.joins.prepare(ruled, next)
	if err := r.server.Reload(ruled); err != nil {
		return nil, fmt.Errorf("reload: %w", err)
	}
	if err := r.ruleFiles.follow(next); err != nil {
		r.log.Warn().Err(err).Msg("rule files not watched")
	}
	r.joins.follow(ruled, r.server.Addrs(), next)
	warnBuffers(r.log, next)
	r.found.follow(next)
	r.bans.SetTerms(setup.BanTerms(next.Bans))
	fixed = r.current.RestartKeys(next)
	next.Log, next.Loop, next.Admin = r.current.Log, r.current.Loop, r.current.Admin
	next.Record, next.Fleet = r.current.Record, r.current.Fleet
	r.status.Changed = nil
	for _, c := range r.current.Changes(next) {
		if len(r.status.Changed) < maxChanges {
			r.status.Changed = append(r.status.Changed, admin.KeyChange{Key: c.Key, Old: c.Old, New: c.New})
		}
	}
	r.remember(r.current)
	r.current = next
	return fixed, nil
}

// retired returns the addresses of removed UDP listeners with sessions, as their settings had them.
func retired(s *proxy.Server) []netip.AddrPort {
	q := new(relay.ListRetired)
	_ = s.Ask(context.Background(), q) // a proxy that has ended has none
	return q.Addrs
}

// mostEarlier bounds the configurations that are kept for removed listeners.
const mostEarlier = 8

// remember keeps a configuration that is replaced, as long as removed listeners have sessions.
func (r *reloader) remember(c *config.Config) {
	if len(retired(r.server)) == 0 {
		r.earlier = nil
		return
	}
	r.earlier = append(r.earlier, c)
	r.earlier = r.earlier[max(0, len(r.earlier)-mostEarlier):]
}

// state returns the results of the reloads so far. Safe for concurrent use.
func (r *reloader) state() admin.Reloads {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// stop makes all further reloads fail.
func (r *reloader) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
}

// texts returns the text of the configuration in force, as its file had it, and of earlier ones whose removed
// listeners may have sessions. Safe for concurrent use.
func (r *reloader) texts() (current string, earlier []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.earlier {
		earlier = append(earlier, c.Text())
	}
	return r.current.Text(), earlier
}

// limits returns the limits in force that metrics show. Safe for concurrent use.
func (r *reloader) limits() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current.Limits.Amounts()
}

// unrouted is the state of a server that no route reaches. The proxy does not know such a server.
const unrouted = "unrouted"

// unrouted returns the servers of upstreams that no route reaches. The results of discovery are left out. Safe for
// concurrent use.
func (r *reloader) unrouted() (all []fleet.ServerCount) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range r.current.Unrouted() {
		for i := range u.Servers {
			all = append(all, fleet.ServerCount{Upstream: u.Name, Addr: u.Servers[i].Address.Nth(0), State: unrouted})
		}
	}
	return all
}

// configuration returns the configuration in force. Safe for concurrent use.
func (r *reloader) configuration() admin.Configuration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return admin.Configuration{TOML: r.current.TOML(), Origins: r.current.Origins()}
}

// onSignal reloads at each SIGHUP until ctx is done. Signals during a reload cause one more reload.
func (r *reloader) onSignal(ctx context.Context) {
	go func() {
		for range pause.On(ctx, hangups) {
			_ = r.reload("signal") // reload logs the error
		}
	}()
}

// onChange reloads at each change of the file until ctx is done.
func (r *reloader) onChange(ctx context.Context) error {
	watcher, err := filewatch.New(r.path)
	if err != nil {
		return err
	}
	go watcher.Run(ctx, func(string) { _ = r.reload("file changed") })
	return nil
}

// hangups receives SIGHUP, the request to reload, after CatchSignals. During the start, one signal waits here. During
// a drain, signals are dropped.
var hangups = make(chan os.Signal, 1)

// CatchSignals keeps signals with their own meaning from ending the process, which is the default. It ignores SIGPIPE:
// the reader of the log may end at any time.
func CatchSignals() {
	signal.Ignore(syscall.SIGPIPE)
	signal.Notify(hangups, syscall.SIGHUP)
	catchUpgrades()
}
