package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"tidegate/internal/bench"
)

func benchFloodCommand() *cli.Command {
	return command(&cli.Command{
		Name:  "flood",
		Usage: "what players notice while one core floods",
		Description: "As root, players and attackers are behind a virtual cable of their own and addresses are forged. It takes\n" +
			"some minutes.\n\n" + examples("tidegate bench flood --loopback --kind pings --players 2 --rate 1000 --window 200ms"),
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "players", Aliases: []string{"n"}, Value: 20, Usage: "have `N` players of each of three kinds"},
			&cli.IntFlag{Name: "hz", Value: 30, Usage: "let each say something `N` times a second"},
			&cli.IntFlag{Name: "rate", Usage: "flood by `N` datagrams a second (default: as many as one core can send)"},
			&cli.DurationFlag{Name: "window", Value: 5 * time.Second, Usage: "flood for `TIME` each"},
			&cli.StringSliceFlag{Name: "kind", Usage: fmt.Sprintf("flood by `KIND` only: %q", bench.Floods())},
			&cli.StringFlag{Name: "subject", Usage: "flood only subjects with `TEXT` in their names, such as \"xdp\""},
			&cli.StringSliceFlag{Name: "vs", Usage: "flood `NAME` too: nginx"},
			&cli.BoolFlag{Name: "loopback", Usage: "do without a cable, so that the flood's core pays for receiving it"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: flood,
	})
}

func flood(c *cli.Context) error {
	if c.NArg() > 0 {
		return misuse(fmt.Errorf("unexpected argument %q", c.Args().First()))
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	result, err := bench.Flood(&bench.FloodOptions{
		Players: c.Int("players"), Rate: c.Int("hz"), Flood: c.Int("rate"), Window: c.Duration("window"),
		Kinds: c.StringSlice("kind"), Vs: c.StringSlice("vs"), Subject: c.String("subject"), Loopback: c.Bool("loopback"), Tidegate: []string{self},
		Context: c.Context, Progress: func(text string) { fmt.Fprintln(c.App.ErrWriter, text) },
	})
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return json.NewEncoder(c.App.Writer).Encode(result)
	}
	return result.Print(c.App.Writer)
}
