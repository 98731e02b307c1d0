package cli

import (
	"io"

	"github.com/urfave/cli/v2"
)

func manCommand() *cli.Command {
	return command(&cli.Command{
		Name:        "man",
		Usage:       "print the manual page, for man -l -",
		Description: examples("tidegate man"),
		Action: func(c *cli.Context) error {
			if err := wantArguments(c); err != nil {
				return err
			}
			page, err := c.App.ToManWithSection(1)
			if err == nil {
				_, err = io.WriteString(c.App.Writer, page)
			}
			return err
		},
	})
}
