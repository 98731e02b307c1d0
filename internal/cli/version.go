package cli

import (
	"runtime"

	"github.com/urfave/cli/v2"

	"tidegate/internal/daemon"
)

func versionCommand() *cli.Command {
	return command(&cli.Command{
		Name:        "version",
		Usage:       "print the version",
		Description: "The flags --version and -v do the same.\n\n" + examples("tidegate version"),
		Flags:       []cli.Flag{jsonFlag},
		Action: func(c *cli.Context) error {
			return printDone(c, struct {
				Version string `json:"version"`
				Go      string `json:"go"`
				System  string `json:"system"`
			}{daemon.Version(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH},
				"tidegate %s %s %s/%s", daemon.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	})
}
