package cli

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"tidegate/internal/config"
	"tidegate/internal/daemon"
	"tidegate/internal/setup"
)

func runCommand() *cli.Command {
	return command(&cli.Command{
		Name:  "run",
		Usage: "run the proxy until Ctrl-C or SIGTERM; a second signal ends it at once",
		Description: "SIGHUP reads the configuration again: all of it, or nothing if it has a fault. No session ends.\n\n" +
			examples("tidegate run -c tidegate.toml"),
		Flags: []cli.Flag{configFlag, &cli.BoolFlag{
			Name: "watch", Usage: "read the configuration again when its file changes",
		}},
		Action: runProxy,
	})
}

func runProxy(c *cli.Context) error {
	daemon.CatchSignals()
	terminal := isTerminal(c.App.ErrWriter)
	lines := daemon.NewLogQueue(c.App.ErrWriter)
	defer lines.Close(lastWords)
	c.App.ErrWriter = lines
	path, settled, err := load(c)
	if bad, ok := errors.AsType[*configError](err); ok {
		return cli.Exit(bad.Error(), exitConfig)
	}
	if err != nil {
		return err
	}
	options := daemon.Options{
		Path: path, Config: settled, Watch: c.Bool("watch"), Log: lines, Terminal: terminal,
	}
	err = daemon.Run(c.Context, options)
	code := 1
	if _, refused := errors.AsType[*daemon.ConfigError](err); refused {
		code = exitConfig
	}
	switch {
	case err == nil:
		return nil
	case options.LogFailure(err):
		return cli.Exit("", code)
	}
	return cli.Exit("tidegate: "+err.Error(), code)
}

// exitConfig is the exit code of run for a configuration with faults: EX_CONFIG of sysexits.h. A service manager does
// not restart the process then. After Go's fatal errors, which exit with 2, it does.
const exitConfig = 78

// configError is an error of the configuration. Commands exit with 2.
type configError struct{ error }

// Error returns faults as they are, and other errors with the program's name.
func (e *configError) Error() string {
	if _, ok := errors.AsType[config.Faults](e.error); ok {
		return e.error.Error()
	}
	return "tidegate: " + e.error.Error()
}

// Unwrap returns the error itself.
func (e *configError) Unwrap() error { return e.error }

// ExitCode implements cli.ExitCoder.
func (e *configError) ExitCode() int { return exitUsage }

var configFlag = &cli.StringFlag{
	Name: "config", Aliases: []string{"c"}, TakesFile: true,
	Usage: "read the configuration from `FILE`", DefaultText: "./tidegate.toml, then /etc/tidegate/tidegate.toml",
}

// load reads the configuration of -c, or the default one. It prints all faults and warnings.
func load(c *cli.Context) (path string, settled *config.Config, err error) {
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

// configPath returns the configuration file of -c, or the default one.
func configPath(c *cli.Context) (string, error) {
	if path := c.String("config"); path != "" {
		return path, nil
	}
	path, err := config.Find()
	if err != nil {
		return "", faulty(err)
	}
	return path, nil
}

// faulty makes an error of the configuration exit with code 2.
func faulty(err error) error { return &configError{err} }
