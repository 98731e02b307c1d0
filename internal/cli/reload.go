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
		Usage: "have the running proxy read its configuration file anew: all of it, or nothing if it has a fault",
		Flags: []cli.Flag{jsonFlag, &cli.BoolFlag{Name: "status", Usage: "only tell how reloads went so far"}},
		Description: "No session ends. The faults of a file that is refused are printed, and the exit code is 2.\n\n" +
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
			fmt.Fprintf(c.App.Writer, "the last one failed:\n%s\n", state.Error)
		}
	}
	if len(state.Restart) > 0 {
		fmt.Fprintf(c.App.Writer, "only a restart changes %s\n", strings.Join(state.Restart, ", "))
	}
	return nil
}
