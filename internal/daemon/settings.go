package daemon

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"tidegate/internal/config"
	"tidegate/internal/filewatch"
	"tidegate/internal/kernel"
	"tidegate/internal/kernel/flow"
	"tidegate/internal/kernel/shield"
	"tidegate/internal/netio"
	"tidegate/internal/setup"
	"tidegate/proxy"
	"tidegate/proxy/relay"
	"tidegate/proxy/relay/recording"
)

func options(c *config.Config, loops int, log, access zerolog.Logger) proxy.Options {
	o := proxy.Options{
		Loops: loops,
		IO: netio.Options{
			Backend:       backend(c),
			MaxBatchDelay: time.Duration(c.Loop.MaxBatchDelay),
		},
		ReceiveBuffer: int(c.Loop.ReceiveBuffer),
		Log:           log,
		Access:        access,
		HideAddresses: !c.Log.PlayerAddresses,
	}
	if c.Record.Last > 0 {
		o.Machine.Recorder = recording.NewRecorder(loops, int(c.Record.Memory))
	}
	return o
}

func backend(c *config.Config) netio.Backend {
	return map[config.Backend]netio.Backend{
		config.BackendAuto: netio.Auto, config.BackendEpoll: netio.Epoll, config.BackendPortable: netio.Portable,
	}[c.Loop.Backend]
}

// loopCount returns the number of loops. More loops cause more wake-ups, so one is best for a small machine
// (docs/benchmarks.md). Where loops cannot share a port there is only one.
func loopCount(asked, cores int, sharesPorts bool) int {
	switch {
	case !sharesPorts:
		return 1
	case asked > 0:
		return asked
	}
	return max(1, cores/2)
}

// newModules returns the modules of the process. What they say and their failures are logged: in a loop, about one line
// of each a second.
func newModules(log zerolog.Logger) *setup.Modules {
	return &setup.Modules{
		Failed: func(route, module string, err error) {
			log.Error().Str("route", route).Str("module", module).Err(err).Msg("module failed; it starts again")
		},
		Says: func(route, module string, session uint64, text []byte, suppressed uint64) {
			log.Info().Str("route", route).Str("module", module).Str("session", strconv.FormatUint(session, 10)).
				Bytes("text", text).Uint64("suppressed", suppressed).Msg("module says")
		},
	}
}

// warnInterpreted warns if modules are slow here.
func warnInterpreted(log zerolog.Logger, m *setup.Modules) {
	if name := m.Interpreted(); name != "" {
		log.Warn().Str("module", name).Str("remedy", setup.CompileRemedy).
			Msg("modules are interpreted, 10 to 50 times slower: the system gives no executable memory")
	}
}

// Bounds of the kernel's tables.
const (
	rateSources = 1 << 14 // sources with a rate, for the filters of all sockets and for each interface: 128 KiB
	kernelBans  = 1 << 20 // prefixes; user space drops datagrams of further ones
)

// errTurnedOff is the reason for kernel features that the configuration turns off.
var errTurnedOff = errors.New("off in the configuration")

// NewKernel loads the kernel features of a configuration, for a number of loops. It leaves out features that are not
// available, with the reason.
func NewKernel(c *config.Config, loops int) (k proxy.Kernel) {
	k.NoShield, k.NoFlows = errTurnedOff, errTurnedOff
	if c.Kernel.Filter != config.KernelOff {
		k.Interfaces = c.Kernel.XDP
		k.Shield, k.NoShield = shield.New(shield.Options{
			PacketRate: c.Kernel.PacketRate, Burst: max(1, c.Kernel.PacketRate), Sources: rateSources, Bans: kernelBans,
			Known: c.Limits.Sessions + c.Limits.HalfOpen, Loops: loops,
		})
		k.Plain = k.NoShield != nil && !errors.Is(k.NoShield, kernel.ErrSystem)
	}
	if c.Kernel.Forward != config.KernelOff {
		k.Flows, k.NoFlows = flow.New(flow.Options{Flows: c.Limits.Sessions})
	}
	return k
}

// CloseKernel ends the kernel offload.
func CloseKernel(k *proxy.Kernel) error {
	var errs []error
	if k.Flows != nil {
		errs = append(errs, k.Flows.Close())
	}
	if k.Shield != nil {
		errs = append(errs, k.Shield.Close())
	}
	return errors.Join(errs...)
}

// ruleFiles watches the files that rules are read from, and updates the rules of a running proxy.
type ruleFiles struct {
	ctx    context.Context // its end ends the watch
	server *proxy.Server
	joins  *joinServers
	log    zerolog.Logger

	mu      sync.Mutex // guards the fields below
	current *config.Config
	stop    context.CancelFunc
}

// follow watches the files of a configuration instead of those of the last one. Safe for concurrent use.
func (l *ruleFiles) follow(c *config.Config) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop != nil {
		l.stop()
	}
	l.current, l.stop = c, nil
	files := setup.RuleFiles(c)
	if len(files) == 0 {
		return nil
	}
	watcher, err := filewatch.New(files...)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(l.ctx)
	l.stop = stop
	go watcher.Run(ctx, func(file string) { l.changed(c, file) })
	return nil
}

// changed reads the rules again after a change of a file. An error leaves the old rules in force.
func (l *ruleFiles) changed(c *config.Config, file string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c != l.current {
		return // a newer configuration is in force
	}
	set, err := setup.Rules(c)
	if err != nil {
		l.log.Error().Str("file", file).Err(err).Msg("rules not reloaded; the old ones stay in force")
		return
	}
	if err := l.server.Ask(context.Background(), relay.SetRules(set)); err != nil {
		return // the proxy has ended
	}
	l.joins.rules.Store(set)
	l.log.Info().Str("file", file).Msg("rules reloaded")
}
