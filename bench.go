package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"tidegate/bench"
)

func benchCommand() *cli.Command {
	return group(&cli.Command{
		Name:  "bench",
		Usage: "measure Tidegate and what else is there, in turn and in one run",
		Subcommands: []*cli.Command{
			benchForwardCommand(),
		},
	})
}

// benchFlags are those of every scenario.
var benchFlags = []cli.Flag{
	&cli.IntFlag{Name: "sessions", Aliases: []string{"n"}, Value: 1000, Usage: "have `N` clients"},
	&cli.DurationFlag{Name: "window", Value: time.Second, Usage: "measure for `TIME` each"},
	&cli.IntFlag{Name: "rounds", Value: 5, Usage: "measure each `N` times, and tell the medians"},
	&cli.StringSliceFlag{Name: "vs", Usage: fmt.Sprintf("measure `NAME` too: %v, or all", bench.Names())},
	&cli.DurationFlag{Name: "delay", Usage: "let Tidegate's datagrams wait `TIME` for company (loop.max_batch_delay)"},
	&cli.BoolFlag{Name: "json", Usage: "print JSON"},
}

func benchForwardCommand() *cli.Command {
	return command(&cli.Command{
		Name:        "forward",
		Usage:       "datagrams passed on as they are (mode = \"relay\")",
		Description: examples("tidegate bench forward --sessions 10 --rounds 1 --window 200ms"),
		Flags: append([]cli.Flag{
			&cli.IntFlag{Name: "size", Value: 200, Usage: "send datagrams of `BYTES`"},
			&cli.IntFlag{Name: "rate", Usage: "send `N` datagrams a second on a fixed timetable", DefaultText: "as many as come back"},
		}, benchFlags...),
		Action: func(c *cli.Context) error { return measure(c, bench.Forward) },
	})
}

// measure runs a scenario and prints its result.
func measure(c *cli.Context, scenario func(*bench.Options) (*bench.Result, error)) error {
	if c.NArg() > 0 {
		return misuse(fmt.Errorf("unexpected argument %q", c.Args().First()))
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o := &bench.Options{
		Sessions: c.Int("sessions"), Size: c.Int("size"), Rate: c.Int("rate"), Window: c.Duration("window"),
		Rounds: c.Int("rounds"), Vs: c.StringSlice("vs"), Delay: c.Duration("delay"), Tidegate: []string{self},
		Progress: func(text string) { fmt.Fprintln(c.App.ErrWriter, text) },
	}
	if len(o.Vs) == 1 && o.Vs[0] == "all" {
		o.Vs = bench.Installed()
	}
	result, err := scenario(o)
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
