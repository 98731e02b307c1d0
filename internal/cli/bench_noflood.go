//go:build !flood

package cli

import (
	"errors"

	"github.com/urfave/cli/v2"
)

// errNoFlood is the answer of a program that was built without the flood generator.
var errNoFlood = errors.New("this program has no flood generator: build one with `go build -tags flood`, " +
	"or run `make bench-flood`")

func benchFloodCommand() *cli.Command {
	return command(&cli.Command{
		Name:            "flood",
		Usage:           "measure what clients notice while one core floods the proxy (only in builds with the tag flood)",
		Description:     "Released programs do not contain the flood generator. `make bench-flood` builds and runs it.",
		Hidden:          true,
		SkipFlagParsing: true,
		Action:          func(*cli.Context) error { return errNoFlood },
	})
}
