package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
	"tidegate/internal/top"
)

func topCommand() *cli.Command {
	return operatorCommand(&cli.Command{
		Name:  "top",
		Usage: "show the running proxy live: its traffic, players and servers",
		Description: "On a terminal, keys sort and filter the players, and show one of them with both of its sides.\n" +
			"? lists the keys. Colors follow $NO_COLOR. The list of more than 2,000 players is read less often\n" +
			"than each second: every 5 s for 10,000. Elsewhere, top prints a line each second.\n\n" +
			examples("tidegate top --count 1", "tidegate top --json --count 1"),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print a JSON object each second, and errors as JSON"},
			&cli.IntFlag{Name: "count", Usage: "end after `N` lines; not on a terminal", DefaultText: "Ctrl-C"},
		},
	}, showTop)
}

func showTop(c *cli.Context, client *admin.Client) error {
	count := c.Int("count")
	if c.IsSet("count") && count < 1 {
		return misuse(fmt.Errorf("--count %d: want at least 1", count))
	}
	var version admin.Version // fails at once, before the terminal changes
	if err := client.Get(c.Context, "/api/v1/version", &version); err != nil {
		return err
	}
	if isTerminal(c.App.Writer) && !c.Bool("json") && count == 0 {
		if !isTerminal(os.Stdin) {
			return misuse(errors.New("standard input is no terminal, so there are no keys: want --count or --json"))
		}
		return top.Run(c.Context, top.Options{
			Client: client, Title: "tidegate " + version.Version, In: os.Stdin, Out: terminalOf(rawOutput(c)),
		})
	}
	began := time.Now()
	if !c.Bool("json") {
		fmt.Fprint(c.App.Writer, top.Heading)
	}
	encoder := json.NewEncoder(c.App.Writer)
	return top.Watch(c.Context, client, count, func(s *top.Sample) error {
		if c.Bool("json") {
			return encoder.Encode(s)
		}
		_, err := fmt.Fprint(c.App.Writer, s.Line(began))
		return err
	})
}
