package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"
	"tidegate/internal/config"
	"tidegate/internal/daemon"
	"tidegate/internal/demo"
	"tidegate/internal/setup"
	"tidegate/proxy/relay"
	"tidegate/ratelimit"
)

func demoCommand(exampleConfig []byte) *cli.Command {
	return command(&cli.Command{
		Name:  "demo",
		Usage: "show Tidegate at work in one process: Riptide clients on a RakNet server, or any other pair",
		Description: examples("tidegate demo --for 2s --clients 2 --from rudp --to raknet",
			"tidegate demo --for 2s --delay 40ms --loss 5%", "tidegate demo --serve", "tidegate demo --list"),
		Flags: []cli.Flag{
			durationFlag(cli.GenericFlag{
				Name: "for", Usage: "play for `DURATION` once all clients have joined",
			}, 10*time.Second),
			&cli.IntFlag{Name: "clients", Value: 4, Usage: "use `N` clients, 1 to 500"},
			&cli.StringFlag{
				Name: "loss", Value: "0%", Usage: "lose this `SHARE` of the clients' datagrams each way, up to 50%",
			},
			durationFlag(cli.GenericFlag{
				Name: "delay", Usage: "delay the clients' datagrams by `DURATION` each way, up to 2s",
			}, 0),
			&cli.StringFlag{Name: "from", Value: demo.MainPair().From(), Usage: "`PROTOCOL` of the clients"},
			&cli.StringFlag{Name: "to", Value: demo.MainPair().To(), Usage: "`PROTOCOL` of the game server"},
			&cli.BoolFlag{
				Name:  "serve",
				Usage: "play until Ctrl-C at fixed ports, with the admin server on, for your own client and all commands",
			},
			&cli.BoolFlag{Name: "list", Usage: "list all pairs of protocols with their promises, and end"},
			&cli.BoolFlag{Name: "json", Usage: "print only the result, as JSON; also errors are JSON then"},
			&cli.BoolFlag{Name: "show-config", Usage: "print a configuration for the pair, and end"},
		},
		Action: func(c *cli.Context) error {
			loss, err := parseShare(c.String("loss"))
			if err != nil {
				return misuse(err)
			}
			pair, err := demo.NewPair(c.String("from"), c.String("to"))
			switch {
			case err != nil:
				return misuse(err)
			case c.Int("clients") < 1 || c.Int("clients") > 500:
				return misuse(fmt.Errorf("--clients %d: want 1 to 500", c.Int("clients")))
			case durationOf(c, "for") < time.Second:
				return misuse(fmt.Errorf("--for %s: want at least 1s", durationOf(c, "for")))
			case loss > 0 && pair.OverTCP():
				return misuse(fmt.Errorf("--loss %s: want 0, since TCP loses nothing", c.String("loss")))
			case durationOf(c, "delay") < 0 || durationOf(c, "delay") > 2*time.Second:
				return misuse(fmt.Errorf("--delay %s: want 0s to 2s", durationOf(c, "delay")))
			case durationOf(c, "delay") > 0 && pair.OverTCP():
				return misuse(errors.New("--delay: want none with clients over TCP"))
			case c.Bool("serve") && c.Int("clients") > maxServed:
				return misuse(fmt.Errorf("--clients %d: want 1 to %d with --serve", c.Int("clients"), maxServed))
			case c.Bool("serve") && c.Bool("json"):
				return misuse(errors.New("--serve and --json: want one of them"))
			case c.Bool("serve") && c.IsSet("for"):
				return misuse(errors.New("--serve and --for: want one of them"))
			case c.Bool("list"):
				fmt.Fprint(c.App.Writer, demo.List())
				return nil
			case c.Bool("show-config"):
				fmt.Fprint(c.App.Writer, starterFor(pair).Needed(exampleListener, exampleServer))
				return nil
			case c.Bool("serve"):
				return serveDemo(c, pair, loss, demoPorts)
			}
			return playDemo(c, exampleConfig, pair, loss)
		},
	})
}

// Addresses of the configuration of --show-config.
var (
	exampleListener = netip.MustParseAddrPort("0.0.0.0:7777")
	exampleServer   = netip.MustParseAddrPort("127.0.0.1:19132")
)

func playDemo(c *cli.Context, exampleConfig []byte, pair demo.Pair, loss float64) error {
	out, terminal := io.Discard, false
	if !c.Bool("json") {
		out, terminal = rawOutput(c), isTerminal(c.App.Writer)
	}
	if terminal {
		out = terminalOf(out) // elsewhere, output keeps errors, which the demo ignores
	}
	result, err := demo.Run(c.Context, demo.Options{
		Pair:     pair,
		For:      durationOf(c, "for"),
		Clients:  c.Int("clients"),
		Loss:     loss,
		Delay:    durationOf(c, "delay"),
		Settings: demoSettings(exampleConfig, pair),
		Out:      out,
		Terminal: terminal,
		Log:      zerolog.Nop(),
	})
	if err == nil && c.Bool("json") {
		err = printJSON(c, result.Report())
	}
	if err != nil {
		return err
	}
	if !result.OK() {
		return cli.Exit("", 1)
	}
	return nil
}

// demoSettings returns a function that makes the settings for a pair. For the main job they come from the example
// configuration with other addresses, for other pairs from the configuration of --show-config.
func demoSettings(exampleConfig []byte, pair demo.Pair) func(listen, server netip.AddrPort) (*relay.Settings, error) {
	return func(listen, server netip.AddrPort) (*relay.Settings, error) {
		name, text := "demo.toml", []byte(starterFor(pair).Needed(listen, server))
		if pair.IsMain() {
			name, text = "config.example.toml", exampleConfig
		}
		c, _, err := config.Parse(name, text, setup.Traits())
		if err != nil {
			return nil, err
		}
		c.Listeners[0].Address = config.AddressOf(listen)
		c.Upstreams[0].Servers = []config.Server{config.ServerAt(server)}
		liftAddressLimits(c)
		return setup.Settings(c, 1, setup.NewSecrets()), nil
	}
}

// starterFor returns the starter for a pair.
func starterFor(pair demo.Pair) config.Starter {
	s, err := config.NewStarter(pair.From(), pair.To())
	if err != nil {
		panic(err) // it has all protocols of the demo
	}
	return s
}

// liftAddressLimits lifts the limits for one address: all clients of a demo come from one address at the same moment.
func liftAddressLimits(c *config.Config) {
	c.Limits.SessionsPerAddress = c.Limits.Sessions
	c.Limits.HalfOpenPerAddress = c.Limits.HalfOpen
	for _, per := range []ratelimit.Scope{ratelimit.PerAddress, ratelimit.PerNetwork} {
		c.Rates = append(c.Rates, config.Limit{
			Of: config.WordOf(ratelimit.Handshakes), Per: config.WordOf(per), Verdict: config.WordOfLimit(ratelimit.Pass),
		})
	}
}

// parseShare reads "5%" or "0.05".
func parseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(number, 64)
	if percent {
		share /= 100
	}
	if err != nil || !(share >= 0 && share <= 0.5) {
		return 0, errors.New("--loss " + text + `: want a share up to a half, for example "5%"`)
	}
	return share, nil
}

// maxServed is the largest number of clients of demo --serve: all join from one address, under the default limits.
const maxServed = 20

// servePorts are the addresses of demo --serve.
type servePorts struct {
	listener, admin netip.AddrPort
	servers         []netip.AddrPort
}

// demoPorts are fixed, so that people and their clients know them.
var demoPorts = servePorts{
	listener: netip.MustParseAddrPort("127.0.0.1:7777"),
	admin:    netip.MustParseAddrPort("127.0.0.1:9470"),
	servers:  []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:7781"), netip.MustParseAddrPort("127.0.0.1:7782")},
}

// serveDemo runs the proxy as the command run does, with game servers and clients in the same process, until Ctrl-C or
// the proxy's end.
func serveDemo(c *cli.Context, pair demo.Pair, loss float64, at servePorts) error {
	daemon.CatchSignals()
	game, err := demo.NewGame(demo.GameOptions{
		Pair: pair, Servers: at.servers, Proxy: at.listener, Clients: c.Int("clients"), Loss: loss,
		Delay: durationOf(c, "delay"),
	})
	if err != nil {
		return fmt.Errorf("%w; end the program that has this port", err)
	}
	defer game.Stop()
	folder, err := os.MkdirTemp("", "tidegate-demo-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	path := filepath.Join(folder, "tidegate.toml")
	text := starterFor(pair).Served(at.listener, at.admin, game.Servers())
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	fmt.Fprint(c.App.Writer, serveText(pair, at, path, c.Int("clients")))
	return serveGame(c, game, path)
}

// serveGame runs the proxy with the configuration at path, and the game's clients. The clients leave first.
func serveGame(c *cli.Context, game *demo.Game, path string) error {
	settled, _, err := setup.Load(path) // warnings are for games that are not the demo's
	if err != nil {
		return err
	}
	lines := daemon.NewLogQueue(c.App.ErrWriter)
	defer lines.Close(lastWords)
	proxying, stop := context.WithCancel(context.WithoutCancel(c.Context))
	defer stop()
	playing, end := context.WithCancel(c.Context)
	defer end()
	ended := make(chan error, 1)
	go func() {
		ended <- daemon.Run(proxying, daemon.Options{
			Path: path, Config: settled, Log: lines, Terminal: isTerminal(c.App.ErrWriter), Embedded: true,
		})
		end()
	}()
	result, err := game.Play(playing)
	stop()
	if err := errors.Join(err, <-ended); err != nil {
		return err
	}
	lines.Close(lastWords)
	fmt.Fprintf(c.App.Writer, "\n%s", result.Counts())
	return nil
}

// serveText says what runs where, and which commands to try.
func serveText(pair demo.Pair, at servePorts, path string, clients int) string {
	return fmt.Sprintf(`Tidegate, with two %[2]s servers that echo.
%[3]d %[4]s clients play until Ctrl-C.
Join with yours: %[1]s

In another terminal:
  export TIDEGATE_ADMIN=%[5]s
  tidegate sessions list
  tidegate upstreams list
  # Its players move, and lose nothing:
  tidegate upstreams drain game %[6]s --move
  # They come back soon:
  tidegate sessions kick --all
  tidegate capture --for 5s -o demo.pcapng
  tidegate decode demo.pcapng
  tidegate metrics
  # After a change of the configuration:
  tidegate reload
PowerShell: $env:TIDEGATE_ADMIN = "%[5]s"
Configuration: %[7]s

`, at.listener, pair.To(), clients, pair.From(), at.admin, at.servers[0], path)
}
