package cli

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
	"tidegate/internal/top"
)

func topCommand() *cli.Command {
	return operatorCommand(&cli.Command{
		Name:  "top",
		Usage: "print the running proxy's traffic, round trips and drops each second",
		Description: "The round trips are means of all sessions. With more than 2,000 sessions, they are means of the\n" +
			"last samples. --json prints what the API streams at /api/v1/live. tidegate dashboard shows each player.\n\n" +
			examples("tidegate top --count 1", "tidegate top --json --count 1"),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print a JSON object each second, and errors as JSON"},
			&cli.IntFlag{Name: "count", Usage: "end after `N` lines", DefaultText: "Ctrl-C"},
		},
	}, showTop)
}

func showTop(c *cli.Context, client *admin.Client) error {
	count := c.Int("count")
	if c.IsSet("count") && count < 1 {
		return misuse(fmt.Errorf("--count %d: want at least 1", count))
	}
	began, heading := time.Now(), top.Heading
	encoder := json.NewEncoder(c.App.Writer)
	return top.Watch(c.Context, client, count, func(l *admin.Live) error {
		if c.Bool("json") {
			return encoder.Encode(l)
		}
		_, err := fmt.Fprint(c.App.Writer, heading, top.Line(l, began))
		heading = ""
		return err
	})
}
