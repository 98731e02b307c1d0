package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"tidegate/internal/bench"
)

func benchCommand() *cli.Command {
	return group(&cli.Command{
		Name:  "bench",
		Usage: "measure Tidegate and what else is there, in turn and in one run",
		Subcommands: []*cli.Command{
			benchForwardCommand(), benchBridgeCommand(), benchHandshakesCommand(), benchSessionsCommand(), benchGoRakNetCommand(),
			benchFloodCommand(),
		},
	})
}

// benchFlags are those of every scenario.
var benchFlags = []cli.Flag{
	&cli.DurationFlag{Name: "window", Value: time.Second, Usage: "measure for `TIME` each"},
	&cli.IntFlag{Name: "rounds", Value: 5, Usage: "measure each `N` times, and tell the medians"},
	&cli.BoolFlag{Name: "json", Usage: "print JSON"},
}

// Flags of some scenarios.
var (
	benchSessions = &cli.IntFlag{Name: "sessions", Aliases: []string{"n"}, Value: 1000, Usage: "have `N` clients"}
	benchGrow     = &cli.IntFlag{Name: "grow", Usage: "then have `N` clients, too, and tell how much dearer that is", DefaultText: "do not"}
	benchVs       = &cli.StringSliceFlag{Name: "vs", Usage: fmt.Sprintf("measure `NAME` too: %v, or all", bench.Names())}
	benchSize     = &cli.IntFlag{Name: "size", Value: 200, Usage: "send `BYTES` at a time"}
	benchFlight   = &cli.IntFlag{Name: "flight", Usage: "have `N` messages under way where there is no rate", DefaultText: "256"}
	benchBurst    = &cli.IntFlag{Name: "burst", Usage: "have each client say `N` messages at a time", DefaultText: "one"}
	benchRate     = &cli.IntFlag{Name: "rate", Usage: "have clients send `N` a second on a fixed timetable", DefaultText: "as many as come back"}
	benchProfile  = &cli.StringFlag{Name: "profile", Usage: "then keep profiles in `FOLDER`, for go tool pprof"}
	benchDelay    = &cli.DurationFlag{Name: "delay", Usage: "let Tidegate's datagrams wait `TIME` for company (loop.max_batch_delay)"}
)

// benchPair are the flags of protocols.
func benchPair(from, to string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "from", Value: from, Usage: "have clients of `PROTOCOL`"},
		&cli.StringFlag{Name: "to", Value: to, Usage: "have a server of `PROTOCOL`"},
	}
}

func benchForwardCommand() *cli.Command {
	return command(&cli.Command{
		Name:        "forward",
		Usage:       "datagrams passed on as they are (mode = \"relay\")",
		Description: examples("tidegate bench forward --sessions 10 --rounds 1 --window 200ms"),
		Flags:       append([]cli.Flag{benchSessions, benchGrow, benchSize, benchRate, benchVs, benchDelay, benchProfile}, benchFlags...),
		Action:      func(c *cli.Context) error { return measure(c, bench.Forward) },
	})
}

func benchBridgeCommand() *cli.Command {
	return command(&cli.Command{
		Name:        "bridge",
		Usage:       "messages carried from connection to connection, beside a proxy that is written on go-raknet",
		Description: examples("tidegate bench bridge --from riptide-2.2 --sessions 10 --rounds 1 --window 200ms"),
		Flags: append(append([]cli.Flag{benchSessions, benchSize, benchRate, benchFlight, benchBurst, benchDelay, benchProfile},
			benchPair("bedrock", "bedrock")...), benchFlags...),
		Action: func(c *cli.Context) error { return measure(c, bench.Bridge) },
	})
}

func benchHandshakesCommand() *cli.Command {
	return command(&cli.Command{
		Name:        "handshakes",
		Usage:       "players who connect and leave, beside a proxy that is written on go-raknet",
		Description: examples("tidegate bench handshakes --from raknet --to raknet --rounds 1 --window 200ms"),
		Flags:       append(append([]cli.Flag{benchRate, benchProfile}, benchPair("bedrock", "bedrock")...), benchFlags...),
		Action:      func(c *cli.Context) error { return measure(c, bench.Handshakes) },
	})
}

func benchSessionsCommand() *cli.Command {
	return command(&cli.Command{
		Name:        "sessions",
		Usage:       "what sessions cost that are idle: relayed ones, or with --from and --to connections",
		Description: examples("tidegate bench sessions --sessions 100 --rounds 1 --window 200ms"),
		Flags:       append(append([]cli.Flag{benchSessions, benchVs}, benchPair("", "")...), benchFlags...),
		Action:      func(c *cli.Context) error { return measure(c, bench.Sessions) },
	})
}

// benchGoRakNetCommand is a subject of the others.
func benchGoRakNetCommand() *cli.Command {
	return command(&cli.Command{
		Name:        "go-raknet",
		Usage:       "be the proxy that is written on go-raknet",
		ArgsUsage:   "LISTEN SERVER ADMIN",
		Description: "What the other commands measure Tidegate beside.",
		Hidden:      true,
		Action: func(c *cli.Context) error {
			if c.NArg() != 3 {
				return misuse(fmt.Errorf("want three addresses, got %d", c.NArg()))
			}
			return bench.RunGoRakNet(c.Args().Get(0), c.Args().Get(1), c.Args().Get(2))
		},
	})
}

// measure runs a scenario and prints its result.
func measure[R interface{ Print(io.Writer) error }](c *cli.Context, scenario func(*bench.Options) (R, error)) error {
	if c.NArg() > 0 {
		return misuse(fmt.Errorf("unexpected argument %q", c.Args().First()))
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o := &bench.Options{
		Sessions: c.Int("sessions"), Grow: c.Int("grow"), Size: c.Int("size"), Rate: c.Int("rate"), Flight: c.Int("flight"),
		Burst: c.Int("burst"), Window: c.Duration("window"), Rounds: c.Int("rounds"), Vs: c.StringSlice("vs"), Delay: c.Duration("delay"), Tidegate: []string{self},
		From: c.String("from"), To: c.String("to"), Profiles: c.String("profile"),
		Context: c.Context, Progress: func(text string) { fmt.Fprintln(c.App.ErrWriter, text) },
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
