package cli

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
)

func drainCommand() *cli.Command {
	return operatorCommand(&cli.Command{
		Name:        "drain",
		Usage:       "end the running proxy as SIGTERM does: it admits no new clients, and says goodbye to all others",
		Description: examples("tidegate drain"),
	}, func(c *cli.Context, client *admin.Client) error {
		var done struct{}
		if err := client.Post(c.Context, "/api/v1/drain", nil, &done); err != nil {
			return err
		}
		fmt.Fprintln(c.App.Writer, "the proxy admits no new sessions, and ends")
		return nil
	})
}
