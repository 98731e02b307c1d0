package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
)

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
	var known []string
	for _, c := range commands {
		known = append(known, c.Name)
	}
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
