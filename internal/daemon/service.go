// Package daemon is the running proxy: the service with its reloads, upgrades and admin server, and the files that it
// watches. Start with Run.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"tidegate/internal/admin"
	"tidegate/internal/config"
	"tidegate/internal/fleet"
	"tidegate/internal/netio"
	"tidegate/internal/setup"
	"tidegate/internal/upstream"
	"tidegate/proxy"
	"tidegate/proxy/captures"
	"tidegate/proxy/relay"
)

// service is a proxy and its surroundings in a process: configuration file, bans, rule files, discovery, reloads,
// admin server, successors, and the service manager.
type service struct {
	path      string           // of the configuration
	config    *config.Config   // at the start
	fresh     *config.Config   // the configuration file's, if config is the predecessor's
	earlier   []*config.Config // of the predecessor, with removed listeners
	loops     int
	secrets   setup.Secrets // the predecessor's, if there is one
	modules   *setup.Modules
	log       zerolog.Logger
	trace     trace
	lines     *LogQueue // the queue behind log
	program   string    // path of the program file; empty: no successor can replace the process
	from      inheritance
	server    *proxy.Server
	captures  *captures.Captures
	joins     *joinServers
	openJoins func() // serves joins, at a successor once it runs
	bans      *banSync
	reloads   *reloader
	fleet     atomic.Pointer[fleet.Fleet] // nil: none
	unfleet   func()                      // leaves the fleet; nil: none
	held      *fleet.Held                 // until a successor joins it; nil: none
	events    *admin.Events               // the time line
	closers   []func()                    // calls of close, in reverse order
}

// Options configure Run.
type Options struct {
	Path   string         // the configuration file, read again at each reload
	Config *config.Config // the parsed file
	Watch  bool           // reload when the file changes
	Log    *LogQueue      // the caller closes it
	// Terminal means that people read Log.
	Terminal bool
	// Embedded means that the process does more than this: no successor can replace it.
	Embedded bool
}

// ConfigError is a fault of the configuration, or of a file that it names, found at the start.
type ConfigError struct{ err error }

// Error implements error.
func (e *ConfigError) Error() string { return e.err.Error() }

// Unwrap returns the fault.
func (e *ConfigError) Unwrap() error { return e.err }

// Run serves until ctx is done and all sessions have ended.
func Run(ctx context.Context, o Options) error {
	s := newService(o)
	s.trace, _ = ctx.Value(traceKey{}).(trace)
	defer s.close()
	if !o.Embedded {
		var err error
		if s.program, err = programPath(os.Args[0]); err != nil {
			s.log.Warn().Err(err).Msg("program file not found; upgrades will fail")
		}
	}
	return s.run(ctx, o.Watch)
}

func newService(o Options) *service {
	c := o.Config
	log := newLog(c, o.Log, o.Terminal)
	return &service{
		events: new(admin.Events),
		path:   o.Path, config: c, log: log, lines: o.Log, modules: newModules(log), secrets: setup.NewSecrets(),
		loops: loopCount(c.Loop.Count, runtime.GOMAXPROCS(0), netio.SharesPorts(backend(c))),
	}
}

// close releases the service's resources.
func (s *service) close() {
	for _, end := range slices.Backward(s.closers) {
		end()
	}
}

// run serves until ctx is done and all sessions have ended, or until a successor has them.
func (s *service) run(ctx context.Context, watch bool) error {
	if err := s.prepare(ctx); err != nil {
		if p := s.from.predecessor; p != nil {
			p.refuse(err)
		}
		return err
	}
	ctx, drain := context.WithCancel(ctx)
	defer drain()
	upgrades := &upgrader{
		server: s.server, reloads: s.reloads, bans: s.bans, joins: s.joins, loops: s.loops, secrets: s.secrets, log: s.log,
		from: s.from, trace: s.trace,
		program: s.program, pending: s.fleetPending, leave: s.leaveFleet,
	}
	if s.from.predecessor == nil {
		if err := s.openFleet(fleet.Pending{}); err != nil {
			return &ConfigError{err}
		}
		if err := s.openAdmin(drain, upgrades); err != nil {
			return err
		}
	} else {
		// Connections are restored while the process already runs.
		defer time.AfterFunc(settleTime, restCollector()).Stop()
		if err := s.takeOver(); err != nil {
			return err
		}
	}
	served := make(chan error, 1)
	go func() { served <- s.serve(ctx) }()
	if s.from.predecessor != nil {
		s.held.Begin()
		s.settleIn(drain, upgrades)
	}
	err := s.attend(ctx, watch, upgrades, served)
	s.log.Info().AnErr("error", err).Msg("tidegate stopped")
	return err
}

// settleTime is the time in which a successor restores the connections of its sessions.
const settleTime = 2 * time.Second

// attend obeys signals until the proxy has ended.
func (s *service) attend(ctx context.Context, watch bool, upgrades *upgrader, served <-chan error) error {
	s.reloads.onSignal(ctx)
	if watch {
		if err := s.reloads.onChange(ctx); err != nil {
			s.log.Error().Err(err).Msg("configuration file not watched")
		}
	}
	upgrades.onSignal(ctx)
	s.log.Info().Str("version", Version()).Int("loops", s.loops).Stringer("backend", backend(s.config).Used()).
		Msg("tidegate is running")
	s.events.Add("start", false, "version %s is running, process %d", Version(), os.Getpid())
	manager.ready()
	watched, done := context.WithCancel(context.WithoutCancel(ctx)) // also while sessions end
	defer done()
	go manager.feedWatchdog(watched, s.from.predecessor != nil, s.answers)
	err := <-served
	upgrades.wait()
	return err
}

// takeOver takes over the predecessor's sessions.
func (s *service) takeOver() error {
	all, err := s.from.predecessor.takeOver(s.server, s.trace)
	if err != nil {
		return fmt.Errorf("take over: %w", err)
	}
	event := s.log.Info()
	if all.Lost > 0 {
		event = s.log.Error().Int("lost", all.Lost).AnErr("error", all.Why)
	}
	s.events.Add("upgrade", all.Lost > 0, "took over %d sessions of version %s; %d were lost", all.Sessions,
		s.from.predecessor.Version, all.Lost)
	event.Int("sessions", all.Sessions).Str("predecessor_version", s.from.predecessor.Version).Msg("took over")
	return nil
}

// settleIn takes the resources that only one process can have, once the predecessor has ended, and the present
// configuration. Clients are served meanwhile.
func (s *service) settleIn(drain func(), upgrades *upgrader) {
	p, joined := s.from.predecessor, false
	join := func() {
		s.inheritChanges(joined)
		if joined {
			return
		}
		joined = true
		if err := s.openFleet(p.Fleet); err != nil {
			s.log.Error().Err(err).Msg("fleet not shared until a restart")
		}
	}
	s.openJoins()
	p.awaitEnd(join, s.joins.takeLate)
	join()
	s.server.TakeKernel()
	if err := s.openAdmin(drain, upgrades); err != nil { // clients depend on this process
		s.log.Error().Err(err).Msg("admin server not started")
	}
	if len(s.earlier) > 0 || s.fresh.Text() != s.config.Text() {
		_ = s.reloads.reload("upgrade") // reload logs the error
	}
}

// prepare does everything that can fail because of a wrong configuration or another process.
func (s *service) prepare(ctx context.Context) error {
	if err := s.listen(); err != nil {
		return err
	}
	s.closers = append(s.closers, s.bans.start(context.Background()), releaseMemory()) // until the last session has ended
	files := &ruleFiles{ctx: ctx, server: s.server, joins: s.joins, log: s.log}
	if err := files.follow(s.config); err != nil {
		return err
	}
	found := &discoverer{ctx: ctx, server: s.server, log: s.log}
	found.follow(s.config)
	s.reloads = &reloader{
		path: s.path, loops: s.loops, secrets: s.secrets, modules: s.modules, server: s.server,
		ruleFiles: files, found: found,
		bans: s.bans.bans, log: s.log, events: s.events, joins: s.joins, current: s.config, earlier: s.earlier,
	}
	return nil
}

// inherit takes the inheritance. The sessions of a predecessor belong to its configuration. So the process begins with
// that one, and changes to its own by a reload. Only keys that need a restart change at once. The number of loops stays
// the predecessor's.
func (s *service) inherit() (err error) {
	if s.from, err = inherit(); err != nil || s.from.predecessor == nil {
		return err
	}
	s.loops, s.fresh, s.secrets = s.from.predecessor.Loops, s.config, s.from.predecessor.Secrets
	fresh, err := setup.SettingsWithRules(s.fresh, s.loops, s.secrets)
	if err == nil {
		err = s.modules.Add(fresh, s.fresh, s.loops)
	}
	if err != nil { // the later reload must not fail
		return &ConfigError{err}
	}
	old, _, err := setup.Parse(s.path, []byte(s.from.predecessor.Config))
	if err != nil {
		s.log.Warn().Err(err).Msg("the predecessor's configuration is not valid for this release; sessions that need it end")
		return nil
	}
	old.Log, old.Loop, old.Admin, old.Kernel = s.config.Log, s.config.Loop, s.config.Admin, s.config.Kernel
	old.Bans.File, old.Record, old.Fleet = s.config.Bans.File, s.config.Record, s.config.Fleet
	s.config = old
	return nil
}

// addRetired adds the removed listeners where a predecessor has sessions. A later reload removes them again.
func (s *service) addRetired(to *relay.Settings) {
	if s.from.predecessor == nil {
		return
	}
	retired := s.from.predecessor.Retired
	for _, text := range slices.Backward(s.from.predecessor.Earlier) {
		c, _, err := setup.Parse(s.path, []byte(text))
		if err != nil {
			continue // its sessions are lost, which is logged
		}
		s.earlier = slices.Insert(s.earlier, 0, c)
		earlier := setup.Settings(c, s.loops, s.secrets)
		if err := new(setup.Modules).Add(earlier, c, s.loops); err != nil {
			s.log.Error().Err(err).Msg("removed listeners have no modules")
		}
		for i := range earlier.Listeners {
			if j := slices.Index(retired, earlier.Listeners[i].Addr); j >= 0 {
				to.Listeners = append(to.Listeners, earlier.Listeners[i])
				retired = slices.Delete(retired, j, j+1)
			}
		}
	}
}

// listen opens the listeners.
func (s *service) listen() error {
	err := setup.CheckMachine(s.config)
	if err != nil {
		return err
	}
	if err := s.inherit(); err != nil { // the settings need the predecessor's secrets
		return err
	}
	ruled, err := setup.SettingsWithRules(s.config, s.loops, s.secrets)
	if err != nil {
		return &ConfigError{err}
	}
	if err := s.modules.Add(ruled, s.config, s.loops); err != nil {
		return &ConfigError{err}
	}
	warnInterpreted(s.log, s.modules)
	s.addRetired(ruled)
	s.joins = newJoinServers(s.log, !s.config.Log.PlayerAddresses)
	s.joins.seed = s.secrets.Seed
	s.joins.prepare(ruled, s.config)
	if s.bans, err = openBans(s.config, s.log); err != nil {
		return &ConfigError{err}
	}
	s.bans.events = s.events
	if p := s.from.predecessor; p != nil {
		s.bans.inherit(p.Bans)
	}
	access, closeAccess, err := openAccessLog(s.config, accessSize, s.log, s.events)
	if err != nil {
		return &ConfigError{err}
	}
	s.closers = append(s.closers, closeAccess)
	o := options(s.config, s.loops, s.log, access)
	saves, err := openRecordings(s.config, s.log)
	if err != nil {
		return &ConfigError{err}
	}
	if saves != nil {
		o.Machine.Abnormal = saves.ended
	}
	o.ServerChanged = s.serverChanged
	o.Bans, o.Kernel = s.bans.bans, NewKernel(s.config, s.loops)
	o.Inherited = s.joins.takePorts(s.from.sockets, ruled)
	o.Held, o.Successor = s.from.activated, s.from.predecessor != nil
	s.closers = append(s.closers, func() {
		if err := CloseKernel(&o.Kernel); err != nil {
			s.log.Warn().Err(err).Msg("kernel offload stays until the process ends")
		}
	})
	if s.server, err = proxy.Listen(ruled, o); err != nil {
		return err
	}
	s.closers = append(s.closers, s.server.Close)
	s.captures = captures.New(s.server, o.Machine.Recorder, time.Duration(s.config.Record.Last))
	if saves != nil {
		saves.recorded = s.captures.Recorded
		s.closers = append(s.closers, saves.start())
	}
	if p := s.from.predecessor; p != nil {
		s.server.InheritDrains(p.Drained)
	}
	s.joins.server, s.joins.bans = s.server, s.bans.bans
	s.openJoins = func() { s.joins.follow(ruled, s.server.Addrs(), s.config) }
	s.closers = append(s.closers, s.joins.close)
	if s.from.predecessor == nil {
		s.openJoins()
	}
	s.holdPlayers()
	logListeners(s.log, s.config, s.server.Addrs())
	warnBuffers(s.log, s.config)
	limitMemory(s.log, s.config)
	return nil
}

// serverChanged adds the state of a server to the time line.
func (s *service) serverChanged(c upstream.Change) {
	text := ""
	if c.Cause != "" {
		text = ": " + c.Cause
	}
	s.events.Add("server", c.To != upstream.Up, "server %s of %s is %v%s", c.Server, c.Upstream, c.To, text)
}

// answers returns an error if a loop does not answer. A proxy that has ended has no loops.
func (s *service) answers(ctx context.Context) error {
	_, err := s.server.Figures(ctx)
	if errors.Is(err, proxy.ErrStopped) {
		return nil
	}
	return err
}

// serve runs the proxy. It notifies the service manager before the end.
func (s *service) serve(ctx context.Context) error {
	notified := make(chan struct{})
	running := context.AfterFunc(ctx, func() {
		s.joins.drains.Store(true)
		manager.stopping()
		close(notified)
	})
	err := s.server.Run(ctx)
	if !running() {
		<-notified
	}
	return err
}
