// Command tidegate is a proxy for game servers: it ends each side's protocol and carries whole messages between them.
//
// Exit codes: 0 all is well, 1 it did not work, 2 it was asked wrongly (an unknown flag, a faulty configuration).
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/urfave/cli/v2"
)

// exampleConfig is the demo's configuration, and the manual.
//
//go:embed config.example.toml
var exampleConfig []byte

func main() {
	// The first signal asks for an orderly end; the second one ends at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args, os.Stdout, os.Stderr))
}

// run runs a command line and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	app := newApp()
	out := &output{Writer: stdout}
	app.Writer, app.ErrWriter = out, stderr
	err := app.RunContext(ctx, args)
	if out.err != nil && (err == nil || err.Error() == "") { // or what was wrong is what could not be printed
		err = fmt.Errorf("print: %w", out.err)
	}
	if err == nil {
		return 0
	}
	var code cli.ExitCoder
	if errors.As(err, &code) {
		if text := err.Error(); text != "" {
			fmt.Fprintln(stderr, text)
		}
		return code.ExitCode()
	}
	fmt.Fprintln(stderr, "tidegate:", err)
	return 1
}

func newApp() *cli.App {
	return &cli.App{
		Name:                 "tidegate",
		Usage:                "a proxy for game servers that speaks the games' own protocols",
		HideHelpCommand:      true,
		HideVersion:          true,
		EnableBashCompletion: true,
		Commands: []*cli.Command{
			runCommand(),
			checkCommand(),
			demoCommand(),
			pingCommand(),
			captureCommand(),
			decodeCommand(),
			banCommand(),
			whyCommand(),
			healthCommand(),
			sessionsCommand(),
			upstreamsCommand(),
			reloadCommand(),
			drainCommand(),
			configCommand(),
			benchCommand(),
			completionCommand(),
			manCommand(),
			versionCommand(),
		},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return misuse(fmt.Errorf("unknown command %q", c.Args().First()))
			}
			return commandless(c, "tidegate", cli.ShowAppHelp)
		},
		OnUsageError: func(_ *cli.Context, err error, _ bool) error { return misuse(err) },
		// run prints errors and picks the code.
		ExitErrHandler: func(*cli.Context, error) {},
	}
}

// command completes a command with what all of them share.
func command(c *cli.Command) *cli.Command {
	c.HideHelpCommand = true
	for _, f := range c.Flags {
		if is, ok := f.(*cli.BoolFlag); ok {
			is.DisableDefaultText = true // it is false, of all of them
		}
	}
	c.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return misuse(err) }
	return c
}

// group completes a command that has only commands below it.
func group(c *cli.Command) *cli.Command {
	c.Action = func(c *cli.Context) error {
		if c.NArg() > 0 {
			return misuse(fmt.Errorf("unknown command %q", c.Command.Name+" "+c.Args().First()))
		}
		return commandless(c, c.Command.Name, cli.ShowSubcommandHelp)
	}
	return command(c)
}

// commandless answers a command line that ends where a command is wanted: a script that says so little means something else.
func commandless(c *cli.Context, name string, help func(*cli.Context) error) error {
	c.App.Writer = c.App.ErrWriter
	if err := help(c); err != nil {
		return err
	}
	return cli.Exit(fmt.Sprintf("tidegate: %s wants one of its commands", name), 2)
}

// misuse makes an error one that ends with code 2.
func misuse(err error) error {
	return cli.Exit(fmt.Sprintf("tidegate: %v\nSee tidegate --help.", err), 2)
}
