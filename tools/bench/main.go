// Command tidegate-bench measures Tidegate and other proxies in turn, in one run.
//
// It is a module of its own, so that the product has none of its code and dependencies. It runs a built tidegate
// (--tidegate), and uses the product's codecs for clients and servers. Start with package scenario; package flood has
// the floods.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"tidegate/internal/config"
	"tidegate/tools/bench/flood"
	"tidegate/tools/bench/scenario"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args, os.Stdout, os.Stderr))
}

// run runs a command line and returns its exit code: 0 success, 1 failure, 2 wrong usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	app := &cli.App{
		Name: "tidegate-bench", Usage: "measure Tidegate and other proxies in turn, in one run",
		Writer: stdout, ErrWriter: stderr,
		ExitErrHandler: func(*cli.Context, error) {}, // the caller exits
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "tidegate", Value: "./tidegate", Usage: "measure the program `PATH`"},
		},
		Commands: []*cli.Command{
			forwardCommand(), edgeCommand(), bridgeCommand(), ticksCommand(), handshakesCommand(), joinCommand(), bulkCommand(),
			sessionsCommand(), upgradeCommand(), floodCommand(), goRakNetCommand(),
		},
	}
	err := app.RunContext(ctx, args)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, scenario.ErrOptions) || errors.Is(err, errUsage):
		fmt.Fprintln(stderr, err)
		return 2
	}
	fmt.Fprintln(stderr, err)
	return 1
}

// errUsage is the error for arguments that no command takes.
var errUsage = errors.New("wrong usage")

// Flags of several commands.
var (
	jsonFlag = &cli.BoolFlag{Name: "json", Usage: "print JSON"}
	sessions = &cli.IntFlag{Name: "sessions", Aliases: []string{"n"}, Value: 1000, Usage: "use `N` clients"}
	grow     = &cli.IntFlag{Name: "grow", Usage: "then repeat with `N` clients, and print the cost ratio"}
	versus   = &cli.StringSliceFlag{Name: "vs", Usage: fmt.Sprintf("measure `NAME` too: %v, or all", scenario.Names())}
	size     = &cli.IntFlag{Name: "size", Value: 200, Usage: "send messages of `BYTES`"}
	flight   = &cli.IntFlag{Name: "flight", Usage: "keep `N` messages in flight if there is no rate"}
	burst    = &cli.IntFlag{Name: "burst", Usage: "let each client send `N` messages at once"}
	rate     = &cli.IntFlag{Name: "rate", Usage: "let clients send `N` messages a second on a fixed timetable"}
	loops    = &cli.IntFlag{Name: "loops", Usage: "run Tidegate with `N` loops, which share its core"}
	profile  = &cli.StringFlag{Name: "profile", Usage: "write profiles for go tool pprof into `FOLDER`"}
	rounds   = &cli.IntFlag{Name: "rounds", Value: 5, Usage: "measure each `N` times, and print medians"}
	window   = &cli.DurationFlag{Name: "window", Value: time.Second, Usage: "measure for `TIME` each"}
	delay    = &cli.DurationFlag{
		Name: "delay", Value: time.Duration(config.Default().Loop.MaxBatchDelay),
		Usage: "let Tidegate delay datagrams for `TIME` to send more at once (loop.max_batch_delay)",
	}
	path = &cli.DurationFlag{
		Name: "path", Value: 25 * time.Millisecond, Usage: "let a datagram take `TIME` between clients and proxy",
	}
)

// withValue returns a copy of a flag with another default and usage.
func withValue(f *cli.IntFlag, value int, usage string) *cli.IntFlag {
	other := *f
	other.Value, other.Usage = value, usage
	return &other
}

// protocols returns the flags for the two protocols.
func protocols(from, to string) (of, at *cli.StringFlag) {
	return &cli.StringFlag{Name: "from", Value: from, Usage: "use clients of `PROTOCOL`"},
		&cli.StringFlag{Name: "to", Value: to, Usage: "use a server of `PROTOCOL`"}
}

func lossFlag(share string) *cli.StringFlag {
	return &cli.StringFlag{Name: "loss", Value: share, Usage: "lose this `SHARE` of these datagrams, each way"}
}

func forwardCommand() *cli.Command {
	return &cli.Command{
		Name: "forward", Usage: `measure datagrams that pass unchanged (mode = "relay")`,
		Flags:  []cli.Flag{sessions, grow, size, rate, versus, delay, loops, profile, window, rounds, jsonFlag},
		Action: func(c *cli.Context) error { return measure(c, scenario.Forward) },
	}
}

func edgeCommand() *cli.Command {
	return &cli.Command{
		Name: "edge", Usage: "measure records that pass an edge of NetherNet, beside a relay",
		Flags:  []cli.Flag{sessions, size, rate, versus, delay, loops, profile, window, rounds, jsonFlag},
		Action: func(c *cli.Context) error { return measure(c, scenario.Edge) },
	}
}

func bridgeCommand() *cli.Command {
	from, to := protocols("bedrock", "bedrock")
	return &cli.Command{
		Name: "bridge", Usage: "measure messages between two connections, also with a proxy on go-raknet",
		Flags: []cli.Flag{
			sessions, size, rate, flight, burst, delay, loops, profile, from, to, window, rounds, jsonFlag,
		},
		Action: func(c *cli.Context) error { return measure(c, scenario.Bridge) },
	}
}

func ticksCommand() *cli.Command {
	return &cli.Command{
		Name: "ticks", Usage: "measure a game whose server sends its state to all players at each tick",
		Flags: []cli.Flag{
			sessions, withValue(size, 40, "let each player send `BYTES` at each tick"),
			&cli.IntFlag{Name: "ticks", Value: 30, Usage: "play `N` ticks a second"},
			&cli.IntFlag{Name: "state", Value: 300, Usage: "let the server send each player `BYTES` at each tick"},
			&cli.StringFlag{Name: "from", Value: "bedrock", Usage: "use players and a server of `PROTOCOL`"},
			delay, profile, window, rounds, jsonFlag,
		},
		Action: func(c *cli.Context) error { return measure(c, scenario.Ticks) },
	}
}

func handshakesCommand() *cli.Command {
	from, to := protocols("bedrock", "bedrock")
	return &cli.Command{
		Name: "handshakes", Usage: "measure clients that connect and leave, also with a proxy on go-raknet",
		Flags:  []cli.Flag{rate, profile, from, to, window, rounds, jsonFlag},
		Action: func(c *cli.Context) error { return measure(c, scenario.Handshakes) },
	}
}

func joinCommand() *cli.Command {
	from, to := protocols("bedrock", "bedrock")
	return &cli.Command{
		Name: "join", Usage: "measure how long clients need to get in, beside a direct connection",
		Flags: []cli.Flag{
			withValue(rate, 20, "let `N` clients a second join"), path, lossFlag("0%"), from, to, window, rounds, jsonFlag,
		},
		Action: func(c *cli.Context) error { return measure(c, scenario.Join) },
	}
}

func bulkCommand() *cli.Command {
	return &cli.Command{
		Name: "bulk", Usage: "measure large messages from a server to one client, over a path that loses datagrams",
		Description: "A program for --peer is in the folder interop/peers/bulk.",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "messages", Value: 600, Usage: "send `N` messages"},
			withValue(size, 14_000, size.Usage), withValue(rate, 0, "let the server send `N` messages a second"),
			path, lossFlag("5%"), &cli.StringFlag{Name: "peer", Usage: "also transfer over QUIC, by the program `PATH`"},
			rounds, jsonFlag,
		},
		Action: func(c *cli.Context) error { return measure(c, scenario.Bulk) },
	}
}

func sessionsCommand() *cli.Command {
	from, to := protocols("", "")
	return &cli.Command{
		Name: "sessions", Usage: "measure idle sessions: relayed, or terminated with --from and --to",
		Flags:  []cli.Flag{sessions, versus, from, to, window, rounds, jsonFlag},
		Action: func(c *cli.Context) error { return measure(c, scenario.Sessions) },
	}
}

func upgradeCommand() *cli.Command {
	return &cli.Command{
		Name: "upgrade", Usage: "measure an upgrade under load, with sessions of all protocols",
		Flags: []cli.Flag{
			sessions, size, rate, &cli.IntFlag{Name: "idle", Usage: "keep `N` further relayed sessions without traffic"},
			&cli.DurationFlag{Name: "window", Value: 3 * time.Second, Usage: "play for `TIME` before and after"}, jsonFlag,
		},
		Action: func(c *cli.Context) error { return measure(c, scenario.Upgrade) },
	}
}

func floodCommand() *cli.Command {
	return &cli.Command{
		Name: "flood", Usage: "measure what clients notice while one core floods the proxy",
		Description: "As root, clients and attackers use a virtual cable and forged addresses. This takes some minutes.",
		Flags: []cli.Flag{
			&cli.IntFlag{
				Name: "players", Aliases: []string{"n"}, Value: 20, Usage: "connect `N` clients to each of four listeners",
			},
			&cli.IntFlag{Name: "hz", Value: 30, Usage: "let each client send `N` times a second"},
			&cli.IntFlag{Name: "rate", Usage: "flood with `N` datagrams a second (default: as many as one core can send)"},
			&cli.DurationFlag{Name: "window", Value: 5 * time.Second, Usage: "flood for `TIME` each"},
			&cli.StringSliceFlag{Name: "kind", Usage: fmt.Sprintf("use only floods of `KIND`: %q", flood.Kinds())},
			&cli.StringFlag{Name: "subject", Usage: "flood only subjects with `TEXT` in their names, such as \"xdp\""},
			&cli.StringSliceFlag{Name: "vs", Usage: "flood `NAME` too: nginx"},
			&cli.BoolFlag{Name: "loopback", Usage: "use no virtual cable; the flood's core then also pays for receiving"},
			jsonFlag,
		},
		Action: func(c *cli.Context) error {
			result, err := flood.Run(&flood.Options{
				Clients: c.Int("players"), Rate: c.Int("hz"), Flood: c.Int("rate"), Window: c.Duration("window"),
				Kinds: c.StringSlice("kind"), Vs: c.StringSlice("vs"), Subject: c.String("subject"),
				Loopback: c.Bool("loopback"), Tidegate: []string{c.String("tidegate")}, Context: c.Context,
				Progress: func(text string) { fmt.Fprintln(c.App.ErrWriter, text) },
			})
			return report(c, result, err)
		},
	}
}

// goRakNetCommand is the go-raknet proxy that other commands measure.
func goRakNetCommand() *cli.Command {
	return &cli.Command{
		Name: scenario.GoRakNet, Usage: "run the proxy on go-raknet", ArgsUsage: "LISTEN SERVER ADMIN", Hidden: true,
		Action: func(c *cli.Context) error {
			if c.NArg() != 3 {
				return fmt.Errorf("%w: want three addresses, got %d", errUsage, c.NArg())
			}
			return scenario.RunGoRakNet(c.Args().Get(0), c.Args().Get(1), c.Args().Get(2))
		},
	}
}

// measure runs a scenario and prints its result.
func measure[R printer](c *cli.Context, run func(*scenario.Options) (R, error)) error {
	if c.NArg() > 0 {
		return fmt.Errorf("%w: unexpected argument %q", errUsage, c.Args().First())
	}
	loss, err := share(c.String("loss"))
	if err != nil {
		return err
	}
	o := &scenario.Options{
		Sessions: c.Int("sessions"), Idle: c.Int("idle"), Grow: c.Int("grow"), Size: c.Int("size"), Rate: c.Int("rate"),
		Flight: c.Int("flight"), Burst: c.Int("burst"), Window: c.Duration("window"), Rounds: c.Int("rounds"),
		Vs: c.StringSlice("vs"), Ticks: c.Int("ticks"), State: c.Int("state"), Delay: c.Duration("delay"),
		Loops: c.Int("loops"), Messages: c.Int("messages"), Peer: c.String("peer"), Path: c.Duration("path"), Loss: loss,
		Tidegate: []string{c.String("tidegate")}, From: c.String("from"), To: c.String("to"),
		Profiles: c.String("profile"), Context: c.Context,
		Progress: func(text string) { fmt.Fprintln(c.App.ErrWriter, text) },
	}
	if len(o.Vs) == 1 && o.Vs[0] == "all" {
		o.Vs = scenario.Installed()
	}
	result, err := run(o)
	return report(c, result, err)
}

// printer is the result of a scenario.
type printer interface{ Print(w io.Writer) error }

func report[R printer](c *cli.Context, result R, err error) error {
	switch {
	case err != nil:
		return err
	case c.Bool("json"):
		return json.NewEncoder(c.App.Writer).Encode(result)
	}
	return result.Print(c.App.Writer)
}

// share reads a share such as "5%"; an empty text is none. The scenario checks the bounds.
func share(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	number, percent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: --loss %s: want a share, for example \"5%%\"", errUsage, text)
	}
	if percent {
		share /= 100
	}
	return share, nil
}
