// Package daemon is the running proxy: the service with its reloads, upgrades and admin server, and the files that it
// watches. Start with Run.
package daemon

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"runtime"
	"slices"

	"github.com/rs/zerolog"

	"tidegate/internal/config"
	"tidegate/internal/netio"
	"tidegate/internal/setup"
	"tidegate/proxy"
)

// service is a proxy and its surroundings in a process: configuration file, bans, rule files, discovery, reloads,
// admin server, successors, and the service manager.
type service struct {
	path    string // of the configuration
	config  *config.Config
	loops   int
	log     zerolog.Logger
	lines   *LogQueue // the queue behind log
	program string    // path of the program file
	from    inheritance
	server  *proxy.Server
	bans    *banSync
	reloads *reloader
	closers []func() // calls of close, in reverse order
}

// Options configure Run.
type Options struct {
	Path   string         // the configuration file, read again at each reload
	Config *config.Config // the parsed file
	Watch  bool           // reload when the file changes
	Log    *LogQueue      // the caller closes it
	// Terminal means that people read Log.
	Terminal bool
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
	defer s.close()
	var err error
	if s.program, err = programPath(os.Args[0]); err != nil {
		s.log.Warn().Err(err).Msg("program file not found; upgrades will fail")
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

// close releases the service's resources.
func (s *service) close() {
	for _, end := range slices.Backward(s.closers) {
		end()
	}
}

// run serves until ctx is done and all sessions have ended.
func (s *service) run(ctx context.Context, watch bool) error {
	if err := s.listen(); err != nil {
		return err
	}
	if err := s.follow(ctx, watch); err != nil {
		return err
	}
	ctx, drain := context.WithCancel(ctx)
	defer drain()
	upgrades := &upgrader{server: s.server, log: s.log, grace: s.reloads.handoverGrace, from: s.from, program: s.program}
	leave, err := s.openAdmin(drain, upgrades)
	if err != nil {
		return err
	}
	upgrades.leave = func() {
		s.reloads.stop()
		leave()
	}
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

// listen opens everything that can fail because of a wrong configuration or another process.
func (s *service) listen() (err error) {
	if err := setup.CheckMachine(s.config); err != nil {
		return err
	}
	if s.from, err = inherit(); err != nil { // the settings need the predecessor's secrets
		return err
	}
	ruled, err := setup.SettingsWithRules(s.config, s.loops)
	if err != nil {
		return &ConfigError{err}
	}
	if s.bans, err = openBans(s.config, s.log); err != nil {
		return &ConfigError{err}
	}
	access, closeAccess, err := openAccessLog(s.config, s.log)
	if err != nil {
		return &ConfigError{err}
	}
	s.closers = append(s.closers, closeAccess)
	o := options(s.config, s.loops, s.log, access)
	o.Bans, o.Kernel = s.bans.bans, NewKernel(s.config, s.loops)
	o.Inherited, o.OthersGone = s.from.sockets, s.from.othersGone()
	s.closers = append(s.closers, func() {
		if err := CloseKernel(&o.Kernel); err != nil {
			s.log.Warn().Err(err).Msg("kernel offload stays until the process ends")
		}
	})
	if s.server, err = proxy.Listen(ruled, o); err != nil {
		return err
	}
	s.server.InheritDrains(s.from.handover.Drained)
	logListeners(s.log, s.config, s.server.Addrs())
	warnBuffers(s.log, s.config)
	return nil
}

// warnBuffers warns of receive buffers that are smaller than configured.
func warnBuffers(log zerolog.Logger, c *config.Config) {
	for _, s := range setup.BufferShortfalls(c, netio.GrantedBuffer) {
		log.Warn().Str("key", s.Key).Stringer("asked", s.Asked).Stringer("given", s.Given).Str("remedy", s.Remedy()).
			Msg("receive buffer is smaller than configured")
	}
}

// follow starts the synchronization with files, discovered servers and the configuration file.
func (s *service) follow(ctx context.Context, watch bool) error {
	s.closers = append(s.closers, s.bans.start(context.Background()), releaseMemory()) // until the last session has ended
	files := &ruleFiles{ctx: ctx, server: s.server, log: s.log}
	if err := files.follow(s.config); err != nil {
		return err
	}
	if err := s.from.takeOver(); err != nil {
		return err
	}
	found := &discoverer{ctx: ctx, server: s.server, log: s.log}
	found.follow(s.config)
	s.reloads = &reloader{
		path: s.path, loops: s.loops, server: s.server, ruleFiles: files, found: found, bans: s.bans.bans, log: s.log,
		current: s.config,
	}
	s.reloads.onSignal(ctx)
	if watch {
		return s.reloads.onChange(ctx)
	}
	return nil
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
		manager.stopping()
		close(notified)
	})
	err := s.server.Run(ctx)
	if !running() {
		<-notified
	}
	return err
}

// logListeners logs the addresses of the configured listeners. The argument addrs has an address for each port.
func logListeners(log zerolog.Logger, c *config.Config, addrs []netip.AddrPort) {
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
