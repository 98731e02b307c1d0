package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// release is the version of this source; CHANGELOG.md tells what is in it.
const release = "0.1.0-dev"

func versionCommand() *cli.Command {
	return command(&cli.Command{
		Name:        "version",
		Usage:       "print the version",
		Description: examples("tidegate version"),
		Action: func(c *cli.Context) error {
			if err := wantArguments(c); err != nil {
				return err
			}
			fmt.Fprintf(c.App.Writer, "tidegate %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		},
	})
}

// version is the release and, where the build knows it, the commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return release
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return release + "+" + s.Value[:12]
		}
	}
	return release
}
