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
	"tidegate/internal/config"
)

var jsonFlag = &cli.BoolFlag{Name: "json", Usage: "print JSON"}

// operatorCommand makes a command for the running proxy of -c. It takes exactly the named arguments.
func operatorCommand(c *cli.Command, do func(*cli.Context, *admin.Client) error, arguments ...string) *cli.Command {
	c.ArgsUsage = strings.Join(arguments, " ")
	c.Flags = append(c.Flags, configFlag)
	c.Action = func(c *cli.Context) error {
		if err := wantArguments(c, arguments...); err != nil {
			return err
		}
		client, err := adminClient(c)
		if err != nil {
			return err
		}
		if err = do(c, client); isAbsent(err) {
			return fmt.Errorf("%w\nNo proxy listens there: start one, or name the running proxy's configuration with -c", err)
		}
		return orMisuse(err)
	}
	return command(c)
}

// wantArguments checks the number of arguments. An argument like a flag was meant as a flag.
func wantArguments(c *cli.Context, names ...string) error {
	switch {
	case slices.ContainsFunc(c.Args().Slice(), isFlag):
		return misuse(fmt.Errorf("%s: flags come before other arguments", commandPath(c)))
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

// adminClient returns a client for the running proxy of the configuration of -c, or of the default one.
func adminClient(c *cli.Context) (*admin.Client, error) {
	path, err := configPath(c)
	if err != nil {
		return nil, err
	}
	table, err := config.LoadAdmin(path)
	switch {
	case err != nil:
		return nil, faulty(err)
	case table.Listen == config.AdminOff:
		return nil, fmt.Errorf(`%s has admin.listen = "off": a running proxy cannot be reached`, path)
	}
	return admin.NewClient(admin.Address(table.Listen), string(table.Token)), nil
}

// orMisuse makes an error end with code 2 if the proxy rejects the request as wrong.
func orMisuse(err error) error {
	var refused *admin.StatusError
	if errors.As(err, &refused) {
		switch refused.Status {
		case http.StatusBadRequest:
			return misuse(err)
		case http.StatusUnprocessableEntity:
			return cli.Exit(err.Error(), 2)
		}
	}
	return err
}

// printJSON prints a value in one line.
func printJSON(c *cli.Context, value any) error { return json.NewEncoder(c.App.Writer).Encode(value) }
