//go:build flood

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"tidegate/internal/bench"
	"tidegate/internal/bench/flood"
)

func benchFloodCommand() *cli.Command {
	return command(&cli.Command{
		Name:  "flood",
		Usage: "measure what clients notice while one core floods the proxy",
		Description: "As root, clients and attackers use a virtual cable and forged addresses. This takes some minutes.\n\n" +
			examples("tidegate bench flood --loopback --kind pings --players 2 --rate 1000 --window 200ms"),
		Flags: []cli.Flag{
			&cli.IntFlag{
				Name: "players", Aliases: []string{"n"}, Value: 20, Usage: "connect `N` clients to each of three listeners",
			},
			&cli.IntFlag{Name: "hz", Value: 30, Usage: "let each client send `N` times a second"},
			&cli.IntFlag{Name: "rate", Usage: "flood with `N` datagrams a second (default: as many as one core can send)"},
			durationFlag(cli.GenericFlag{Name: "window", Usage: "flood for `TIME` each"}, 5*time.Second),
			&cli.StringSliceFlag{Name: "kind", Usage: fmt.Sprintf("use only floods of `KIND`: %q", flood.Kinds())},
			&cli.StringFlag{Name: "subject", Usage: "flood only subjects with `TEXT` in their names, such as \"xdp\""},
			&cli.StringSliceFlag{Name: "vs", Usage: "flood `NAME` too: nginx"},
			&cli.BoolFlag{Name: "loopback", Usage: "use no virtual cable; the flood's core then also pays for receiving"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: runFlood,
	})
}

func runFlood(c *cli.Context) error {
	if c.NArg() > 0 {
		return misuse(fmt.Errorf("unexpected argument %q", c.Args().First()))
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	result, err := flood.Run(&flood.Options{
		Clients: c.Int("players"), Rate: c.Int("hz"), Flood: c.Int("rate"), Window: durationOf(c, "window"),
		Kinds: c.StringSlice("kind"), Vs: c.StringSlice("vs"), Subject: c.String("subject"), Loopback: c.Bool("loopback"),
		Tidegate: []string{self}, Context: c.Context,
		Progress: func(text string) { fmt.Fprintln(c.App.ErrWriter, text) },
	})
	switch {
	case errors.Is(err, bench.ErrOptions):
		return misuse(err)
	case err != nil:
		return err
	}
	if c.Bool("json") {
		return json.NewEncoder(c.App.Writer).Encode(result)
	}
	return result.Print(c.App.Writer)
}
