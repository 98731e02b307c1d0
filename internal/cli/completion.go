package cli

import (
	_ "embed"
	"errors"
	"io"
	"slices"

	"github.com/urfave/cli/v2"
)

// Scripts for shells. They ask tidegate for the next words (completeWord).
var (
	//go:embed completion/bash
	bashCompletion string
	//go:embed completion/zsh
	zshCompletion string
	//go:embed completion/fish
	fishCompletion string
)

var shells = []string{"bash", "zsh", "fish"}

func completionCommand() *cli.Command {
	return command(&cli.Command{
		Name:      "completion",
		Usage:     "print a script that completes commands, flags, sessions, servers and bans in bash, zsh or fish",
		ArgsUsage: "SHELL",
		Description: "For one shell: source <(tidegate completion bash). Permanently: put the script\n" +
			"into the shell's folder for completions.\n\n" +
			examples("tidegate completion bash", "tidegate completion zsh", "tidegate completion fish"),
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 || !slices.Contains(shells, c.Args().First()) {
				return misuse(errors.New("want one of bash, zsh or fish"))
			}
			script := map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}
			_, err := io.WriteString(c.App.Writer, script[c.Args().First()])
			return err
		},
	})
}
