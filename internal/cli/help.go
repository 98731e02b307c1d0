package cli

import (
	"errors"

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
		if !c.Hidden {
			known = append(known, c.Name)
		}
	}
	prefix := ""
	for _, group := range l.path {
		prefix += group + " "
	}
	return unknown("command", prefix, l.arguments[0], known)
}
