// Package cli is the command line: one file for each command, and the list of all commands in app.go.
//
// Exit codes: 0 success, 1 failure, 2 wrong usage or a faulty configuration. The command run has another code for a
// faulty configuration (exitConfig).
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"tidegate/internal/daemon"
)

// Main runs the command line of this process and returns its exit code. exampleConfig is the text of
// config.example.toml.
func Main(exampleConfig []byte) int {
	if len(os.Args) > 1 && os.Args[1] == "run" {
		daemon.CatchSignals() // first of all: by default these signals end the process
	}
	// The first signal starts an orderly end. The second one ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return run(ctx, exampleConfig, os.Args, os.Stdout, os.Stderr)
}

// run runs a command line and returns its exit code.
func run(ctx context.Context, exampleConfig []byte, args []string, stdout, stderr io.Writer) int {
	app := newApp(exampleConfig)
	out := &output{Writer: stdout}
	app.Writer, app.ErrWriter = out, stderr
	err := app.RunContext(ctx, args)
	if out.err != nil && (err == nil || err.Error() == "") {
		err = fmt.Errorf("print: %w", out.err)
	}
	if err == nil {
		return 0
	}
	var code cli.ExitCoder
	if errors.As(err, &code) {
		if text := err.Error(); text != "" {
			printLast(stderr, text)
		}
		return code.ExitCode()
	}
	printLast(stderr, "tidegate: "+err.Error())
	return 1
}

// lastWords bounds the time for a reader to read the last lines of an ending process.
const lastWords = 2 * time.Second

// printLast prints a line at the end of the process.
func printLast(w io.Writer, text string) {
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		fmt.Fprintln(w, strings.Map(safe, text))
	}()
	select {
	case <-printed:
	case <-time.After(lastWords):
	}
}

func newApp(exampleConfig []byte) *cli.App {
	return &cli.App{
		Name:                 "tidegate",
		Usage:                "a UDP proxy for game servers that speaks the games' protocols",
		HideHelpCommand:      true,
		HideVersion:          true,
		EnableBashCompletion: true,
		Commands: []*cli.Command{
			initCommand(),
			runCommand(),
			checkCommand(),
			demoCommand(exampleConfig),
			pingCommand(),
			captureCommand(),
			decodeCommand(),
			banCommand(),
			whyCommand(),
			healthCommand(),
			metricsCommand(),
			sessionsCommand(),
			upstreamsCommand(),
			reloadCommand(),
			drainCommand(),
			configCommand(),
			benchCommand(),
			completionCommand(),
			manCommand(exampleConfig),
			versionCommand(),
		},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return misuse(fmt.Errorf("unknown command %q", c.Args().First()))
			}
			return noSubcommand(c, "tidegate", cli.ShowAppHelp)
		},
		OnUsageError: func(_ *cli.Context, err error, _ bool) error { return misuse(err) },
		// run prints errors and picks the code.
		ExitErrHandler: func(*cli.Context, error) {},
	}
}

// command completes a command with the settings that all of them share.
func command(c *cli.Command) *cli.Command {
	c.HideHelpCommand = true
	for _, f := range c.Flags {
		if is, ok := f.(*cli.BoolFlag); ok {
			is.DisableDefaultText = true // the default is always false
		}
	}
	c.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return misuse(err) }
	return c
}

// group completes a command that has subcommands and does nothing itself.
func group(c *cli.Command) *cli.Command {
	c.Action = func(c *cli.Context) error {
		if c.NArg() > 0 {
			return misuse(fmt.Errorf("unknown command %q", c.Command.Name+" "+c.Args().First()))
		}
		return noSubcommand(c, c.Command.Name, cli.ShowSubcommandHelp)
	}
	return command(c)
}

// noSubcommand prints the help to stderr and exits with 2: a script that stops there has a bug.
func noSubcommand(c *cli.Context, name string, help func(*cli.Context) error) error {
	c.App.Writer = c.App.ErrWriter
	if err := help(c); err != nil {
		return err
	}
	return cli.Exit(fmt.Sprintf("tidegate: %s: want one of its commands", name), 2)
}

// misuse turns err into an error that exits with code 2.
func misuse(err error) error {
	return cli.Exit(fmt.Sprintf("tidegate: %v\nSee tidegate --help.", err), 2)
}

// examples formats command lines for a command's Description. A test runs each of them.
func examples(lines ...string) string {
	return "Examples:\n\n   " + strings.Join(lines, "\n   ")
}
