// Package daemon is the running proxy: the service with its reloads, upgrades, admin server, and the files that it watches.
// Start with Run.
package daemon

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"runtime"
	"slices"

	"github.com/rs/zerolog"

	"tidegate/internal/admin"
	"tidegate/internal/config"
	"tidegate/internal/netio"
	"tidegate/internal/setup"
	"tidegate/proxy"
)

// service is a proxy with all that a process gives it: its configuration's file, bans and lists, discovery, reloads,
// operators, successors, and the service manager.
type service struct {
	path    string // of the configuration
	config  *config.Config
	loops   int
	log     zerolog.Logger
	lines   *LogQueue // of log
	program string    // path of the program file
	from    birth
	server  *proxy.Server
	bans    *banKeeper
	reloads *reloader
	endings []func() // what close has to do, the last first
}

// Options say what Run runs.
type Options struct {
	Path   string         // the configuration file, read again at each reload
	Config *config.Config // read from it
	Watch  bool           // reload when the file changes
	Log    *LogQueue      // the caller closes it
	// Terminal says that people read Log.
	Terminal bool
}

// ConfigError is a fault of the configuration, or of a file that it names, that was found at the start.
type ConfigError struct{ err error }

// Error implements error.
func (e *ConfigError) Error() string { return e.err.Error() }

// Unwrap returns the fault.
func (e *ConfigError) Unwrap() error { return e.err }

// Run serves until ctx is done and every session has ended.
func Run(ctx context.Context, o Options) error {
	s := newService(o)
	defer s.close()
	var err error
	if s.program, err = programPath(os.Args[0]); err != nil {
		s.log.Warn().Err(err).Msg("program file not found; upgrades are not possible")
	}
	return s.run(ctx, o.Watch)
}

func newService(o Options) *service {
	c := o.Config
	return &service{
		path: o.Path, config: c, log: newLog(c, o.Log, o.Terminal), lines: o.Log,
		loops: loopCount(c.Loop.Count, runtime.GOMAXPROCS(0), netio.SharesPorts(backend(c))),
	}
}

// close gives back what the service has taken.
func (s *service) close() {
	for _, end := range slices.Backward(s.endings) {
		end()
	}
}

// run serves until ctx is done and every session has ended.
func (s *service) run(ctx context.Context, watch bool) error {
	if err := s.listen(); err != nil {
		return err
	}
	if err := s.follow(ctx, watch); err != nil {
		return err
	}
	ctx, drain := context.WithCancel(ctx)
	defer drain()
	leave, err := s.hearOperators(drain)
	if err != nil {
		return err
	}
	upgrades := &upgrader{server: s.server, log: s.log, grace: s.reloads.handoverGrace, leave: func() {
		s.reloads.stop()
		leave()
	}, from: s.from, program: s.program}
	upgrades.onSignal(ctx)
	s.log.Info().Str("version", Version()).Int("loops", s.loops).Msg("tidegate is running")
	manager.ready()
	watched, done := context.WithCancel(context.WithoutCancel(ctx)) // also while sessions end
	defer done()
	go manager.feedWatchdog(watched, s.from.predecessor != nil, s.answers)
	err = s.serve(ctx)
	upgrades.wait()
	s.log.Info().AnErr("error", err).Msg("tidegate has ended")
	return err
}

// listen opens everything that a wrong configuration, or another process, may stand in the way of.
func (s *service) listen() (err error) {
	if err := setup.CheckMachine(s.config); err != nil {
		return err
	}
	if s.from, err = born(); err != nil { // whose secrets the settings need
		return err
	}
	ruled, err := setup.SettingsWithRules(s.config, s.loops)
	if err != nil {
		return &ConfigError{err}
	}
	if s.bans, err = keepBans(s.config, s.log); err != nil {
		return &ConfigError{err}
	}
	o := options(s.config, s.loops, s.log)
	o.Bans, o.Kernel = s.bans.bans, NewKernel(s.config, s.loops)
	o.Inherited, o.OthersGone = s.from.sockets, s.from.othersGone()
	s.endings = append(s.endings, func() {
		if err := CloseKernel(&o.Kernel); err != nil {
			s.log.Warn().Err(err).Msg("the kernel keeps helping until this process is gone")
		}
	})
	if s.server, err = proxy.Listen(ruled, o); err != nil {
		return err
	}
	s.server.InheritDrains(s.from.legacy.Drained)
	tellListeners(s.log, s.config, s.server.Addrs())
	tellShortages(s.log, s.config)
	return nil
}

// tellShortages warns of receive buffers that are smaller than configured.
func tellShortages(log zerolog.Logger, c *config.Config) {
	for _, s := range setup.BufferShortfalls(c, netio.GrantedBuffer) {
		log.Warn().Str("key", s.Key).Stringer("asked", s.Asked).Stringer("given", s.Given).Str("remedy", s.Remedy()).
			Msg("receive buffer is smaller than configured")
	}
}

// follow keeps up with the files that the configuration names, with servers that come and go, and with the configuration
// itself.
func (s *service) follow(ctx context.Context, watch bool) error {
	s.endings = append(s.endings, s.bans.start(context.Background()), keepMemory()) // until the last session has ended
	files := &lists{ctx: ctx, server: s.server, log: s.log}
	if err := files.follow(s.config); err != nil {
		return err
	}
	if err := s.from.takeOver(); err != nil {
		return err
	}
	found := &discoverer{ctx: ctx, server: s.server, log: s.log}
	found.follow(s.config)
	s.reloads = &reloader{
		path: s.path, loops: s.loops, server: s.server, lists: files, found: found, bans: s.bans.bans, log: s.log,
		current: s.config,
	}
	s.reloads.onSignal(ctx)
	if watch {
		return s.reloads.onChange(ctx)
	}
	return nil
}

// hearOperators opens the admin server. The function that it returns closes it.
func (s *service) hearOperators(drain func()) (stop func(), err error) {
	stop, err = startAdmin(s.config, admin.Options{
		Proxy: s.server, Reload: s.reloads.reload, Reloads: s.reloads.state, Config: s.reloads.configuration, Drain: drain,
		Log: s.log, LinesLost: s.lines.Lost,
	})
	switch {
	case err != nil && s.from.predecessor == nil:
		return nil, err
	case err != nil: // players are waiting, and nobody else would take them
		s.log.Error().Err(err).Msg("admin server not started")
		return func() {}, nil
	}
	s.endings = append(s.endings, stop)
	return stop, nil
}

// answers reports whether every loop answers. A proxy that has ended has none left to ask.
func (s *service) answers(ctx context.Context) error {
	_, err := s.server.Figures(ctx)
	if errors.Is(err, proxy.ErrStopped) {
		return nil
	}
	return err
}

// serve runs the proxy, and tells the service manager of its end before it is over.
func (s *service) serve(ctx context.Context) error {
	told := make(chan struct{})
	running := context.AfterFunc(ctx, func() {
		manager.stopping()
		close(told)
	})
	err := s.server.Run(ctx)
	if !running() {
		<-told
	}
	return err
}

// tellListeners logs where the listeners of the file listen. addrs has the address of each of their ports.
func tellListeners(log zerolog.Logger, c *config.Config, addrs []netip.AddrPort) {
	for _, l := range c.Listeners {
		ports := l.Address.Ports()
		event := log.Info().Str("listener", l.Name).Stringer("address", addrs[0])
		if ports > 1 {
			event = event.Int("ports", ports)
		}
		event.Str("transport", string(l.Transport)).Strs("protocols", l.Protocols).Str("route", l.Route).Msg("listening")
		addrs = addrs[ports:]
	}
}
