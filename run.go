package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"tidegate/admin"
	"tidegate/config"
	"tidegate/netio"
	"tidegate/proxy"
)

func runCommand() *cli.Command {
	return command(&cli.Command{
		Name:  "run",
		Usage: "run the proxy until Ctrl-C or SIGTERM; a second one ends it at once",
		Description: "SIGHUP reads the configuration anew: all of it, or nothing if it has a fault. No session ends.\n\n" +
			examples("tidegate run -c tidegate.toml"),
		Flags: []cli.Flag{configFlag, &cli.BoolFlag{
			Name: "watch", Usage: "read the configuration anew whenever its file has changed",
		}},
		Action: func(c *cli.Context) error {
			path, settled, err := load(c)
			if err != nil {
				return err
			}
			return serve(c, path, settled)
		},
	})
}

var configFlag = &cli.StringFlag{
	Name: "config", Aliases: []string{"c"}, TakesFile: true,
	Usage: "read the configuration from `FILE`", DefaultText: "./tidegate.toml, then /etc/tidegate/tidegate.toml",
}

// load reads the configuration of -c, or the default one. Faults are printed, all of them; warnings too.
func load(c *cli.Context) (path string, settled *config.Config, err error) {
	if c.NArg() > 0 {
		return "", nil, misuse(fmt.Errorf("unexpected argument %q", c.Args().First()))
	}
	if path, err = configPath(c); err != nil {
		return "", nil, err
	}
	settled, warnings, err := loadFile(path)
	for _, w := range warnings {
		fmt.Fprintln(c.App.ErrWriter, "warning:", w)
	}
	if err != nil {
		return "", nil, faulty(err)
	}
	return path, settled, nil
}

// configPath is the configuration file of -c, or the default one.
func configPath(c *cli.Context) (string, error) {
	if path := c.String("config"); path != "" {
		return path, nil
	}
	path, err := config.Find()
	if err != nil {
		return "", cli.Exit("tidegate: "+err.Error(), 2)
	}
	return path, nil
}

// faulty makes an error of a configuration one that ends with code 2.
func faulty(err error) error {
	var faults config.Faults
	if errors.As(err, &faults) {
		return cli.Exit(faults.Error(), 2)
	}
	return cli.Exit("tidegate: "+err.Error(), 2)
}

func serve(c *cli.Context, path string, settled *config.Config) error {
	log := newLog(settled, c.App.ErrWriter)
	loops := loopCount(settled.Loop.Count, runtime.GOMAXPROCS(0), netio.SharesPorts(backend(settled)))
	if err := localSources(settled); err != nil {
		return err
	}
	from, err := born()
	if err != nil {
		return err
	}
	ruled, err := ruledSettings(settled, loops)
	if err != nil {
		return cli.Exit("tidegate: "+err.Error(), 2)
	}
	keeper, err := keepBans(settled, log)
	if err != nil {
		return cli.Exit("tidegate: "+err.Error(), 2)
	}
	o := options(settled, loops, log)
	o.Bans = keeper.bans
	o.Inherited = from.sockets
	o.Kernel = newKernel(settled)
	defer func() {
		if err := closeKernel(&o.Kernel); err != nil {
			log.Warn().Err(err).Msg("the kernel keeps helping until this process is gone")
		}
	}()
	server, err := proxy.Listen(ruled, o)
	if err != nil {
		return err
	}
	tellListeners(log, settled, server.Addrs())
	defer keeper.start(context.Background())() // until the last session has ended
	files := &lists{ctx: c.Context, server: server, log: log}
	if err := files.follow(settled); err != nil {
		return err
	}
	if err := from.takeOver(); err != nil {
		return err
	}
	found := &discoverer{ctx: c.Context, server: server, log: log}
	found.follow(settled)
	reloads := &reloader{
		path: path, loops: loops, server: server, lists: files, found: found, bans: keeper.bans, log: log, current: settled,
	}
	reloads.onSignal(c.Context)
	if c.Bool("watch") {
		if err := reloads.onChange(c.Context); err != nil {
			return err
		}
	}
	ctx, drain := context.WithCancel(c.Context)
	defer drain()
	closeAdmin, err := startAdmin(settled, admin.Options{
		Proxy: server, Reload: reloads.reload, Reloads: reloads.state, Config: reloads.configuration, Drain: drain, Log: log,
	})
	switch {
	case err != nil && from.predecessor == nil:
		return err
	case err != nil: // players are waiting, and nobody else would take them
		log.Error().Err(err).Msg("operators are not listened to")
		closeAdmin = func() {}
	}
	defer closeAdmin()
	upgrades := &upgrader{server: server, log: log, grace: reloads.handoverGrace, leave: func() {
		reloads.stop()
		closeAdmin()
	}}
	upgrades.onSignal(ctx)
	log.Info().Str("version", version()).Int("loops", loops).Msg("tidegate is running")
	manager.ready()
	told := make(chan struct{})
	running := context.AfterFunc(ctx, func() {
		manager.stopping()
		close(told)
	})
	err = server.Run(ctx)
	if !running() {
		<-told
	}
	upgrades.wait()
	log.Info().AnErr("error", err).Msg("tidegate has ended")
	return err
}

func options(c *config.Config, loops int, log zerolog.Logger) proxy.Options {
	return proxy.Options{
		Loops: loops,
		IO: netio.Options{
			Backend:       backend(c),
			MaxBatchDelay: time.Duration(c.Loop.MaxBatchDelay),
		},
		ReceiveBuffer: int(c.Loop.ReceiveBuffer),
		Log:           log,
		HideAddresses: !c.Log.PlayerAddresses,
	}
}

func backend(c *config.Config) netio.Backend {
	return map[config.Backend]netio.Backend{
		config.BackendAuto: netio.Auto, config.BackendEpoll: netio.Epoll, config.BackendPortable: netio.Portable,
	}[c.Loop.Backend]
}

// loopCount is how many loops to run: more of them are more wake-ups, so a small machine does best with one
// (docs/benchmarks.md), and where they cannot share a port there is one only.
func loopCount(asked, cores int, sharesPorts bool) int {
	switch {
	case !sharesPorts:
		return 1
	case asked > 0:
		return asked
	}
	return max(1, cores/2)
}

// newLog writes for a reader on a terminal, and JSON for a program.
func newLog(c *config.Config, w io.Writer) zerolog.Logger {
	human := c.Log.Format == config.FormatHuman
	if c.Log.Format == config.FormatAuto {
		human = isTerminal(w)
	}
	if human {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly}
	}
	level := map[config.LogLevel]zerolog.Level{
		config.Debug: zerolog.DebugLevel, config.Info: zerolog.InfoLevel,
		config.Warn: zerolog.WarnLevel, config.Error: zerolog.ErrorLevel,
	}[c.Log.Level]
	return zerolog.New(w).Level(level).With().Timestamp().Logger()
}
