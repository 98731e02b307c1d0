package cli

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
)

func drainCommand() *cli.Command {
	return operatorCommand(&cli.Command{
		Name:        "drain",
		Usage:       "end the running proxy as SIGTERM does: nobody is let in any more, and every player is told goodbye",
		Description: examples("tidegate drain"),
	}, func(c *cli.Context, client *admin.Client) error {
		var done struct{}
		if err := client.Post(c.Context, "/api/v1/drain", nil, &done); err != nil {
			return err
		}
		fmt.Fprintln(c.App.Writer, "the proxy lets nobody in any more, and ends")
		return nil
	})
}
