package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"tidegate/internal/config"
	"tidegate/internal/netio"
	"tidegate/internal/setup"
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
			s := newService(path, settled, c.App.ErrWriter)
			defer s.close()
			return s.run(c.Context, c.Bool("watch"))
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
	settled, warnings, err := setup.Load(path)
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
