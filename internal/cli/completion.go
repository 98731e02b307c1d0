package cli

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/urfave/cli/v2"
)

// Scripts for shells. They call tidegate with --generate-bash-completion for the next words.
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
		Description: "For one shell: source <(tidegate completion bash). Permanently: put the script\n" +
			"into the shell's folder for completions.\n\n" +
			examples("tidegate completion bash", "tidegate completion zsh"),
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 || !slices.Contains(shells, c.Args().First()) {
				return misuse(errors.New("want one of bash, zsh or fish"))
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
