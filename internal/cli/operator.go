package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
	"tidegate/internal/table"
)

var jsonFlag = &cli.BoolFlag{Name: "json", Usage: "print JSON, also of errors"}

// operatorCommand makes a command for a running proxy. It takes exactly the named arguments.
func operatorCommand(c *cli.Command, do func(*cli.Context, *admin.Client) error, arguments ...string) *cli.Command {
	c.ArgsUsage = strings.Join(arguments, " ")
	return operatorCommandFor(c, func(c *cli.Context) error { return wantArguments(c, arguments...) }, do)
}

// operatorCommandFor is operatorCommand with a check of the arguments.
func operatorCommandFor(c *cli.Command, check func(*cli.Context) error,
	do func(*cli.Context, *admin.Client) error) *cli.Command {
	c.Flags = append(c.Flags, targetFlags()...)
	c.Action = func(c *cli.Context) error {
		if err := check(c); err != nil {
			return err
		}
		client, err := targetOf(c).client()
		if err != nil {
			return err
		}
		if err = do(c, client); isAbsent(err) {
			return fmt.Errorf("%w\nNo proxy listens there: start one, or name it with --admin, --context or -c", err)
		}
		return orMisuse(err)
	}
	return command(c)
}

// wantArguments checks the number of arguments.
func wantArguments(c *cli.Context, names ...string) error {
	switch {
	case c.NArg() > len(names):
		return misuse(fmt.Errorf("unexpected argument %q", c.Args().Get(len(names))))
	case c.NArg() < len(names):
		return misuse(fmt.Errorf("%s: want %s", commandPath(c), strings.Join(names, " and ")))
	}
	return nil
}

// commandPath returns a command as users type it, without the program.
func commandPath(c *cli.Context) string {
	return strings.TrimPrefix(c.Command.HelpName, c.App.Name+" ")
}

// orMisuse makes an error end with code 2 if the proxy rejects the request as wrong.
func orMisuse(err error) error {
	switch {
	case isRefused(err, http.StatusBadRequest):
		return misuse(err)
	case isRefused(err, http.StatusUnprocessableEntity):
		return cli.Exit(err.Error(), exitUsage)
	}
	return err
}

// isRefused reports whether an error is an answer of the proxy with one of several statuses.
func isRefused(err error, statuses ...int) bool {
	refused, ok := errors.AsType[*admin.StatusError](err)
	return ok && slices.Contains(statuses, refused.Status)
}

// listing returns a command's action that lists what the proxy answers at a path.
func listing[Answer, Item any](path string, items func(*Answer) []Item, columns []table.Column,
	rows func(*Item) [][]string) func(*cli.Context, *admin.Client) error {
	return func(c *cli.Context, client *admin.Client) error {
		var answer Answer
		if err := client.Get(c.Context, path, &answer); err != nil {
			return err
		}
		return printList(c, items(&answer), columns, rows)
	}
}

// printList prints a JSON object for each item, or a table with the rows of all.
func printList[Item any](c *cli.Context, items []Item, columns []table.Column, rows func(*Item) [][]string) error {
	var all [][]string
	for i := range items {
		if !c.Bool("json") {
			all = append(all, rows(&items[i])...)
		} else if err := printJSON(c, &items[i]); err != nil {
			return err
		}
	}
	if !c.Bool("json") {
		printTable(c.App.Writer, columns, all)
	}
	return nil
}

// printJSON prints a value in one line.
func printJSON(c *cli.Context, value any) error { return json.NewEncoder(c.App.Writer).Encode(value) }

// printDone prints the result of a command: a value as JSON, or a line for people.
func printDone(c *cli.Context, value any, format string, args ...any) error {
	if c.Bool("json") {
		return printJSON(c, value)
	}
	fmt.Fprintf(c.App.Writer, format+"\n", args...)
	return nil
}
