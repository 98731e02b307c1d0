package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"tidegate/internal/config"
	"tidegate/internal/each"
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
	if name == "" { // the help lists them
		return cli.Exit("tidegate: want one of its commands", exitUsage)
	}
	names := strings.Join(each.Of(c.Command.Subcommands, commandName), ", ")
	return cli.Exit(fmt.Sprintf("tidegate %s: want one of its commands: %s", name, names), exitUsage)
}

func commandName(c *cli.Command) string { return c.Name }

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

func helpCommand() *cli.Command {
	return command(&cli.Command{
		Name:        "help",
		Usage:       "explain a command, as --help does",
		ArgsUsage:   "[COMMAND]",
		Description: examples("tidegate help", "tidegate help sessions kick"),
		Action: func(c *cli.Context) error {
			l, err := parseLine(c.App, append(c.Args().Slice(), "--help"))
			switch {
			case err != nil:
				return err
			case len(l.arguments) > 0:
				return unknownCommand(c.App, &l)
			case l.command != nil && l.command.Name == "help":
				return misuse(errors.New("help: want another command"))
			}
			return c.App.RunContext(c.Context, append([]string{c.App.Name}, l.words()...))
		},
	})
}

// unknownCommand returns the error for a line whose first argument should be a command.
func unknownCommand(app *cli.App, l *line) error {
	commands := app.Commands
	if l.command != nil {
		commands = l.command.Subcommands
	}
	known := each.Of(commands, commandName)
	prefix := ""
	for _, group := range l.path {
		prefix += group + " "
	}
	word := l.arguments[0]
	if full := elsewhere(app, word); len(full) > 0 && !slices.Contains(known, meant[word]) {
		return misuse(fmt.Errorf("unknown command %q; did you mean %s?", prefix+word, strings.Join(full, " or ")))
	}
	return unknown("command", prefix, word, known)
}

// elsewhere returns the full names, in quotes, of the commands that have a name, or its synonym, in any group.
func elsewhere(app *cli.App, word string) (full []string) {
	is := func(c *cli.Command) bool { return c.HasName(word) || c.HasName(meant[word]) }
	for _, c := range app.Commands {
		if is(c) {
			full = append(full, strconv.Quote(c.Name))
		}
		for _, sub := range c.Subcommands {
			if is(sub) {
				full = append(full, strconv.Quote(c.Name+" "+sub.Name))
			}
		}
	}
	return full
}

// length is the value of a flag for a duration, as in the configuration.
type length config.Duration

// Set implements cli.Generic.
func (l *length) Set(text string) error {
	if (*config.Duration)(l).UnmarshalText([]byte(text)) != nil {
		return errors.New(`want a duration with its unit (ms, s, m, h or d), for example "90s" or "7d"`)
	}
	return nil
}

// String returns the duration for the help.
func (l *length) String() string { return config.Duration(*l).String() }

// durationFlag is a flag for a duration. durationOf returns its value.
func durationFlag(f cli.GenericFlag, value time.Duration) *cli.GenericFlag {
	of := length(value)
	f.Value = &of
	return &f
}

// durationOf returns the value of a durationFlag.
func durationOf(c *cli.Context, name string) time.Duration {
	if of, ok := c.Generic(name).(*length); ok {
		return time.Duration(*of)
	}
	return 0
}
