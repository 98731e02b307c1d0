package cli

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
)

func reloadCommand() *cli.Command {
	return operatorCommand(&cli.Command{
		Name:  "reload",
		Usage: "make the running proxy read its configuration file again: all of it, or nothing if it has a fault",
		Flags: []cli.Flag{jsonFlag, &cli.BoolFlag{Name: "status", Usage: "only print the results of the reloads so far"}},
		Description: "No session ends. If the file has faults, the command prints them and exits with 2.\n\n" +
			examples("tidegate reload", "tidegate reload --status --json"),
	}, reload)
}

func reload(c *cli.Context, client *admin.Client) error {
	var state admin.Reloads
	var err error
	if c.Bool("status") {
		err = client.Get(c.Context, "/api/v1/reload", &state)
	} else {
		err = client.Post(c.Context, "/api/v1/reload", nil, &state)
	}
	switch {
	case err != nil:
		return err
	case c.Bool("json"):
		return printJSON(c, state)
	case !c.Bool("status"):
		fmt.Fprintln(c.App.Writer, "configuration reloaded")
	default:
		fmt.Fprintf(c.App.Writer, "%d succeeded, %d failed\n", state.Succeeded, state.Failed)
		if state.Error != "" {
			fmt.Fprintf(c.App.Writer, "the last reload failed:\n%s\n", state.Error)
		}
	}
	if len(state.Restart) > 0 {
		fmt.Fprintf(c.App.Writer, "a restart is needed for %s\n", strings.Join(state.Restart, ", "))
	}
	return nil
}
