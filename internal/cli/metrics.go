package cli

import (
	"io"

	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
)

func metricsCommand() *cli.Command {
	return operatorCommand(&cli.Command{
		Name:        "metrics",
		Usage:       "print the running proxy's metrics, in the format of Prometheus",
		Description: examples("tidegate metrics"),
	}, func(c *cli.Context, client *admin.Client) error {
		metrics, err := client.Stream(c.Context, "/metrics")
		if err != nil {
			return err
		}
		defer func() { _ = metrics.Close() }()
		_, err = io.Copy(c.App.Writer, metrics)
		return err
	})
}
