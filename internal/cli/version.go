package cli

import (
	"fmt"
	"runtime"

	"github.com/urfave/cli/v2"

	"tidegate/internal/daemon"
)

func versionCommand() *cli.Command {
	return command(&cli.Command{
		Name:        "version",
		Usage:       "print the version",
		Description: examples("tidegate version"),
		Action: func(c *cli.Context) error {
			if err := wantArguments(c); err != nil {
				return err
			}
			fmt.Fprintf(c.App.Writer, "tidegate %s %s %s/%s\n", daemon.Version(), runtime.Version(), runtime.GOOS,
				runtime.GOARCH)
			return nil
		},
	})
}
