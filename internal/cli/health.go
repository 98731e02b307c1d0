package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
)

func healthCommand() *cli.Command {
	return operatorCommand(&cli.Command{
		Name:        "health",
		Usage:       "report whether the running proxy is healthy; if not, or without one, the exit code is 1",
		Description: examples("tidegate health", "tidegate health --ready --json"),
		Flags: []cli.Flag{jsonFlag, &cli.BoolFlag{
			Name: "ready", Usage: "report whether the proxy can take clients: it admits them, and has a server for them",
		}},
	}, health)
}

func health(c *cli.Context, client *admin.Client) error {
	path := "/livez"
	if c.Bool("ready") {
		path = "/readyz"
	}
	state, err := askHealth(c.Context, client, path)
	switch {
	case err != nil:
		return err
	case c.Bool("json"):
		err = printJSON(c, state)
	default:
		for _, check := range state.Checks {
			word := "ok"
			switch {
			case !check.OK:
				word = "not ok"
			case check.Warning != "":
				word = "warn"
			}
			fmt.Fprintf(c.App.Writer, "%-6s  %-13s  %s\n", word, check.Name, cmp.Or(check.Detail, check.Warning))
		}
	}
	if err == nil && !state.OK {
		err = cli.Exit("", 1)
	}
	return err
}

// askHealth reads both kinds of answers: an unhealthy proxy also has an error status.
func askHealth(ctx context.Context, client *admin.Client, path string) (state admin.Health, err error) {
	err = client.Get(ctx, path, &state)
	if refused, ok := errors.AsType[*admin.StatusError](err); ok && refused.Status == http.StatusServiceUnavailable {
		err = json.Unmarshal(refused.Body, &state)
	}
	return state, err
}
