// Package cli is the command line: one file for each command, and the list of all commands in app.go.
//
// Exit codes: 0 success, 1 failure, 2 wrong usage or a faulty configuration. The command run has another code for a
// faulty configuration (exitConfig).
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"tidegate/internal/config"
	"tidegate/internal/daemon"
)

// Main runs the command line of this process and returns its exit code. exampleConfig is the text of
// config.example.toml.
func Main(exampleConfig []byte) int { return mainWith(context.Background(), exampleConfig) }

// mainWith is Main for a context.
func mainWith(ctx context.Context, exampleConfig []byte) int {
	if code, ran := runService(exampleConfig); ran {
		return code
	}
	if len(os.Args) > 1 && os.Args[1] == "run" {
		daemon.CatchSignals() // first of all: by default these signals end the process
	}
	// The first signal starts an orderly end. The second one ends the process at once.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return run(ctx, exampleConfig, os.Args, os.Stdout, os.Stderr)
}

// run runs a command line and returns its exit code.
func run(ctx context.Context, exampleConfig []byte, args []string, stdout, stderr io.Writer) int {
	app := App(exampleConfig)
	out := &output{Writer: stdout}
	app.Writer, app.ErrWriter = out, stderr
	if len(args) > 1 && args[1] == completeWord {
		complete(ctx, app, args[2:])
		return 0
	}
	l, err := parseLine(app, args[1:])
	switch {
	case len(l.arguments) > 0 && (l.command == nil || len(l.command.Subcommands) > 0):
		err = unknownCommand(app, &l) // its flags are unknown, too
	case err != nil:
	case l.has("version", "v"):
		err = app.RunContext(ctx, []string{args[0], "version"})
	default:
		err = app.RunContext(ctx, append([]string{args[0]}, l.words()...))
	}
	if out.err != nil && (err == nil || err.Error() == "") {
		err = fmt.Errorf("print: %w", out.err)
	}
	if err == nil {
		return 0
	}
	return failure(&l, err, stderr)
}

// failure prints an error and returns the exit code.
func failure(l *line, err error, stderr io.Writer) int {
	code, text := 1, err.Error()
	coder, coded := errors.AsType[cli.ExitCoder](err)
	if coded {
		code = coder.ExitCode()
	}
	_, misused := errors.AsType[*usageError](err)
	switch {
	case text == "":
		return code
	case l.has("json"):
		text = failureJSON(err, code)
	case misused:
		text = fmt.Sprintf("tidegate: %s\nSee %s", text, l.help())
	case !coded:
		text = "tidegate: " + text
	}
	printLast(stderr, text)
	return code
}

// failureJSON returns an error as JSON, for programs.
func failureJSON(err error, code int) string {
	out := struct {
		Error  string      `json:"error"`
		Code   int         `json:"code"`
		Faults []faultJSON `json:"faults,omitempty"`
	}{strings.TrimPrefix(err.Error(), "tidegate: "), code, nil}
	if faults, ok := errors.AsType[config.Faults](err); ok {
		out.Faults = faultsJSON(faults)
	}
	text, err := json.Marshal(out)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// App returns all commands. exampleConfig is the text of config.example.toml.
func App(exampleConfig []byte) *cli.App {
	return &cli.App{
		Name:            "tidegate",
		Usage:           "a UDP proxy for game servers that speaks the games' protocols",
		HideHelpCommand: true,
		Flags:           []cli.Flag{cli.HelpFlag}, // not added by itself beside a command named help
		HideVersion:     true,
		Commands: []*cli.Command{
			initCommand(),
			runCommand(),
			checkCommand(),
			doctorCommand(),
			demoCommand(exampleConfig),
			pingCommand(),
			captureCommand(),
			decodeCommand(),
			banCommand(),
			whyCommand(),
			healthCommand(),
			dashboardCommand(),
			metricsCommand(),
			topCommand(),
			eventsCommand(),
			sessionsCommand(),
			upstreamsCommand(),
			reloadCommand(),
			upgradeCommand(),
			fleetCommand(),
			drainCommand(),
			contextCommand(),
			configCommand(),
			completionCommand(),
			versionCommand(),
			helpCommand(),
		},
		Action:       func(c *cli.Context) error { return noSubcommand(c, "", cli.ShowAppHelp) },
		OnUsageError: func(_ *cli.Context, err error, _ bool) error { return flagError(err) },
		// run prints errors and picks the code.
		ExitErrHandler: func(*cli.Context, error) {},
	}
}
