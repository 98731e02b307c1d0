package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

// exitUsage is the exit code for wrong usage, and for a faulty configuration of all commands but run.
const exitUsage = 2

// command completes a command with the settings that all of them share.
func command(c *cli.Command) *cli.Command {
	c.HideHelpCommand = true
	for _, f := range c.Flags {
		if is, ok := f.(*cli.BoolFlag); ok {
			is.DisableDefaultText = true // the default is always false
		}
	}
	if len(c.Subcommands) == 0 {
		c.Before = func(c *cli.Context) error {
			if c.Command.ArgsUsage != "" {
				return nil // the command checks its arguments itself
			}
			return wantArguments(c)
		}
	}
	c.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return flagError(err) }
	return c
}

// group completes a command that has subcommands and does nothing itself.
func group(c *cli.Command) *cli.Command {
	c.Action = func(c *cli.Context) error { return noSubcommand(c, c.Command.Name, cli.ShowSubcommandHelp) }
	return command(c)
}

// noSubcommand prints the help of a command, or of the program (""), to stderr and exits with 2: a script that stops
// there has a bug.
func noSubcommand(c *cli.Context, name string, help func(*cli.Context) error) error {
	c.App.Writer = c.App.ErrWriter
	if err := help(c); err != nil {
		return err
	}
	var names []string
	for _, sub := range c.Command.Subcommands {
		names = append(names, sub.Name)
	}
	if name == "" { // the help lists them
		return cli.Exit("tidegate: want one of its commands", exitUsage)
	}
	return cli.Exit(fmt.Sprintf("tidegate %s: want one of its commands: %s", name, strings.Join(names, ", ")), exitUsage)
}

// examples formats command lines for a command's Description. A test runs each of them.
func examples(lines ...string) string {
	return "Examples:\n\n   " + strings.Join(lines, "\n   ")
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
