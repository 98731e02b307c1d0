package cli

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/urfave/cli/v2"
)

// Scripts that have a shell ask tidegate itself, by --generate-bash-completion, what may follow.
var (
	//go:embed completion/bash
	bashCompletion string
	//go:embed completion/zsh
	zshCompletion string
)

var shells = []string{"bash", "zsh", "fish"}

func completionCommand() *cli.Command {
	return command(&cli.Command{
		Name:      "completion",
		Usage:     "print a script that completes commands and flags in bash, zsh or fish",
		ArgsUsage: "SHELL",
		Description: "Once: source <(tidegate completion bash). For good, put the script where the shell looks for such.\n\n" +
			examples("tidegate completion bash", "tidegate completion zsh"),
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 || !slices.Contains(shells, c.Args().First()) {
				return misuse(errors.New("completion wants one of bash, zsh or fish"))
			}
			script, err := completion(c.App, c.Args().First())
			if err == nil {
				_, err = io.WriteString(c.App.Writer, script)
			}
			return err
		},
		BashComplete: func(c *cli.Context) {
			for _, shell := range shells {
				fmt.Fprintln(c.App.Writer, shell)
			}
		},
	})
}

func completion(app *cli.App, shell string) (string, error) {
	switch shell {
	case "bash":
		return bashCompletion, nil
	case "zsh":
		return zshCompletion, nil
	}
	return app.ToFishCompletion()
}
