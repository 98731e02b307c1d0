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
	"tidegate/internal/config"
)

func benchCommand() *cli.Command {
	return group(&cli.Command{
		Name:  "bench",
		Usage: "measure Tidegate and other proxies in turn, in one run",
		Subcommands: []*cli.Command{
			benchForwardCommand(), benchBridgeCommand(), benchTicksCommand(), benchHandshakesCommand(),
			benchJoinCommand(), benchBulkCommand(), benchSessionsCommand(),
			benchUpgradeCommand(), benchGoRakNetCommand(),
			benchFloodCommand(),
		},
	})
}

// benchFlags are the flags of every scenario.
func benchFlags() []cli.Flag {
	return []cli.Flag{
		durationFlag(cli.GenericFlag{Name: "window", Usage: "measure for `TIME` each"}, time.Second),
		&cli.IntFlag{Name: "rounds", Value: 5, Usage: "measure each `N` times, and print medians"},
		jsonFlag,
	}
}

// Flags of some scenarios.
var (
	benchSessions = &cli.IntFlag{Name: "sessions", Aliases: []string{"n"}, Value: 1000, Usage: "use `N` clients"}
	benchGrow     = &cli.IntFlag{Name: "grow", Usage: "then repeat with `N` clients, and print the cost ratio",
		DefaultText: "no"}
	benchVs     = &cli.StringSliceFlag{Name: "vs", Usage: fmt.Sprintf("measure `NAME` too: %v, or all", bench.Names())}
	benchSize   = &cli.IntFlag{Name: "size", Value: 200, Usage: "send messages of `BYTES`"}
	benchFlight = &cli.IntFlag{Name: "flight", Usage: "keep `N` messages in flight if there is no rate",
		DefaultText: "256"}
	benchBurst = &cli.IntFlag{Name: "burst", Usage: "let each client send `N` messages at once", DefaultText: "one"}
	benchRate  = &cli.IntFlag{Name: "rate", Usage: "let clients send `N` messages a second on a fixed timetable",
		DefaultText: "as many as return"}
	benchLoops = &cli.IntFlag{Name: "loops", Usage: "run Tidegate with `N` loops, which share its core",
		DefaultText: "one"}
	benchProfile = &cli.StringFlag{Name: "profile", Usage: "write profiles for go tool pprof into `FOLDER`"}
)

func benchDelay() cli.Flag {
	return durationFlag(cli.GenericFlag{Name: "delay",
		Usage: "let Tidegate delay datagrams for `TIME` to send more at once (loop.max_batch_delay)"},
		time.Duration(config.Default().Loop.MaxBatchDelay))
}

// benchProtocols returns the flags for the two protocols.
func benchProtocols(from, to string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "from", Value: from, Usage: "use clients of `PROTOCOL`"},
		&cli.StringFlag{Name: "to", Value: to, Usage: "use a server of `PROTOCOL`"},
	}
}

func benchForwardCommand() *cli.Command {
	return command(&cli.Command{
		Name:        "forward",
		Usage:       "measure datagrams that pass unchanged (mode = \"relay\")",
		Description: examples("tidegate bench forward --sessions 10 --rounds 1 --window 200ms"),
		Flags: append([]cli.Flag{benchSessions, benchGrow, benchSize, benchRate, benchVs, benchDelay(),
			benchLoops, benchProfile},
			benchFlags()...),
		Action: func(c *cli.Context) error { return measure(c, bench.Forward) },
	})
}

func benchBridgeCommand() *cli.Command {
	return command(&cli.Command{
		Name:        "bridge",
		Usage:       "measure messages between two connections, also with a proxy on go-raknet",
		Description: examples("tidegate bench bridge --from riptide-2.2 --sessions 10 --rounds 1 --window 200ms"),
		Flags: append(append([]cli.Flag{benchSessions, benchSize, benchRate, benchFlight, benchBurst, benchDelay(),
			benchLoops, benchProfile},
			benchProtocols("bedrock", "bedrock")...), benchFlags()...),
		Action: func(c *cli.Context) error { return measure(c, bench.Bridge) },
	})
}

func benchTicksCommand() *cli.Command {
	size := *benchSize
	size.Value, size.Usage = 40, "let each player send `BYTES` at each tick"
	return command(&cli.Command{
		Name:        "ticks",
		Usage:       "measure a game whose server sends its state to all players at each tick",
		Description: examples("tidegate bench ticks --sessions 10 --rounds 1 --window 200ms"),
		Flags: append([]cli.Flag{benchSessions, &size,
			&cli.IntFlag{Name: "ticks", Value: 30, Usage: "play `N` ticks a second"},
			&cli.IntFlag{Name: "state", Value: 300, Usage: "let the server send each player `BYTES` at each tick"},
			&cli.StringFlag{Name: "from", Value: "bedrock", Usage: "use players and a server of `PROTOCOL`"},
			benchDelay(), benchProfile}, benchFlags()...),
		Action: func(c *cli.Context) error { return measure(c, bench.Ticks) },
	})
}

func benchHandshakesCommand() *cli.Command {
	return command(&cli.Command{
		Name:        "handshakes",
		Usage:       "measure clients that connect and leave, also with a proxy on go-raknet",
		Description: examples("tidegate bench handshakes --from raknet --to raknet --rounds 1 --window 200ms"),
		Flags: append(append([]cli.Flag{benchRate, benchProfile}, benchProtocols("bedrock", "bedrock")...),
			benchFlags()...),
		Action: func(c *cli.Context) error { return measure(c, bench.Handshakes) },
	})
}

func benchJoinCommand() *cli.Command {
	rate := *benchRate
	rate.Value, rate.DefaultText, rate.Usage = 20, "", "let `N` clients a second join"
	return command(&cli.Command{
		Name:        "join",
		Usage:       "measure how long clients need to get in, beside a direct connection",
		Description: examples("tidegate bench join --path 10ms --loss 5% --rounds 1 --window 1s"),
		Flags: append(append([]cli.Flag{&rate,
			durationFlag(cli.GenericFlag{Name: "path", Usage: "let a datagram take `TIME` between clients and proxy"},
				25*time.Millisecond),
			&cli.StringFlag{Name: "loss", Value: "0%", Usage: "lose this `SHARE` of these datagrams, each way"}},
			benchProtocols("bedrock", "bedrock")...), benchFlags()...),
		Action: func(c *cli.Context) error { return measure(c, bench.Join) },
	})
}

func benchBulkCommand() *cli.Command {
	size, rate := *benchSize, *benchRate
	size.Value = 14_000
	rate.Usage, rate.DefaultText = "let the server send `N` messages a second", "all at once"
	return command(&cli.Command{
		Name:  "bulk",
		Usage: "measure large messages from a server to one client, over a path that loses datagrams",
		Description: "A program for --peer is in the source, in the folder interop/peers/bulk.\n\n" +
			examples("tidegate bench bulk --messages 20 --path 10ms --loss 1% --rounds 1"),
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "messages", Value: 600, Usage: "send `N` messages"}, &size, &rate,
			durationFlag(cli.GenericFlag{Name: "path", Usage: "let a datagram take `TIME` between client and proxy"},
				25*time.Millisecond),
			&cli.StringFlag{Name: "loss", Value: "5%", Usage: "lose this `SHARE` of these datagrams, each way"},
			&cli.StringFlag{Name: "peer", Usage: "also transfer over QUIC, by the program `PATH`"},
			&cli.IntFlag{Name: "rounds", Value: 5, Usage: "measure each `N` times, and print medians"},
			jsonFlag,
		},
		Action: func(c *cli.Context) error { return measure(c, bench.Bulk) },
	})
}

func benchSessionsCommand() *cli.Command {
	return command(&cli.Command{
		Name:        "sessions",
		Usage:       "measure idle sessions: relayed, or terminated with --from and --to",
		Description: examples("tidegate bench sessions --sessions 100 --rounds 1 --window 200ms"),
		Flags:       append(append([]cli.Flag{benchSessions, benchVs}, benchProtocols("", "")...), benchFlags()...),
		Action:      func(c *cli.Context) error { return measure(c, bench.Sessions) },
	})
}

func benchUpgradeCommand() *cli.Command {
	return command(&cli.Command{
		Name:        "upgrade",
		Usage:       "measure an upgrade under load, with sessions of all protocols",
		Description: examples("tidegate bench upgrade --sessions 100 --window 1s"),
		Flags: []cli.Flag{benchSessions, benchSize, benchRate,
			&cli.IntFlag{Name: "idle", Usage: "keep `N` further relayed sessions without traffic"},
			durationFlag(cli.GenericFlag{Name: "window", Usage: "play for `TIME` before and after"}, 3*time.Second), jsonFlag},
		Action: func(c *cli.Context) error { return measure(c, bench.Upgrade) },
	})
}

// benchGoRakNetCommand is the go-raknet proxy that other commands measure.
func benchGoRakNetCommand() *cli.Command {
	return command(&cli.Command{
		Name:        "go-raknet",
		Usage:       "run the proxy on go-raknet",
		ArgsUsage:   "LISTEN SERVER ADMIN",
		Description: "Other commands start it for comparison.",
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
	if err := wantArguments(c); err != nil {
		return err
	}
	var loss float64
	if share := c.String("loss"); share != "" {
		var err error
		if loss, err = parseShare(share); err != nil {
			return misuse(fmt.Errorf("--loss %w", err))
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o := &bench.Options{
		Sessions: c.Int("sessions"), Idle: c.Int("idle"), Grow: c.Int("grow"), Size: c.Int("size"), Rate: c.Int("rate"),
		Flight: c.Int("flight"),
		Burst:  c.Int("burst"), Window: durationOf(c, "window"), Rounds: c.Int("rounds"), Vs: c.StringSlice("vs"),
		Ticks: c.Int("ticks"), State: c.Int("state"),
		Delay: durationOf(c, "delay"), Loops: c.Int("loops"),
		Messages: c.Int("messages"), Peer: c.String("peer"),
		Path: durationOf(c, "path"), Loss: loss, Tidegate: []string{self},
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
