package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"
	"github.com/urfave/cli/v2"

	"tidegate/config"
	"tidegate/demo"
	"tidegate/proxy"
)

func demoCommand() *cli.Command {
	return command(&cli.Command{
		Name:  "demo",
		Usage: "show the main job: Riptide clients play on a RakNet server through Tidegate, all in this process",
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "for", Value: 10 * time.Second, Usage: "play for `DURATION`"},
			&cli.IntFlag{Name: "clients", Value: 4, Usage: "with `N` clients, 1 to 500"},
			&cli.StringFlag{Name: "loss", Value: "0%", Usage: "lose this `SHARE` of the clients' datagrams each way, up to 50%"},
		},
		Action: func(c *cli.Context) error {
			loss, err := parseShare(c.String("loss"))
			switch {
			case err != nil:
				return misuse(err)
			case c.Int("clients") < 1 || c.Int("clients") > 500:
				return misuse(fmt.Errorf("--clients %d: want 1 to 500", c.Int("clients")))
			case c.Duration("for") < time.Second:
				return misuse(fmt.Errorf("--for %s: want at least 1s", c.Duration("for")))
			case c.NArg() > 0:
				return misuse(fmt.Errorf("unexpected argument %q", c.Args().First()))
			}
			return playDemo(c, loss)
		},
	})
}

func playDemo(c *cli.Context, loss float64) error {
	result, err := demo.Run(c.Context, demo.Options{
		For:      c.Duration("for"),
		Clients:  c.Int("clients"),
		Loss:     loss,
		Settings: demoSettings,
		Out:      c.App.Writer,
		Terminal: c.App.Writer == os.Stdout && isatty.IsTerminal(os.Stdout.Fd()),
		Log:      zerolog.Nop(),
	})
	if err != nil {
		return err
	}
	if !result.OK() {
		return cli.Exit("", 1)
	}
	return nil
}

// demoSettings is the example configuration, listening and sending elsewhere.
func demoSettings(listen, server netip.AddrPort) (*proxy.Settings, error) {
	c, _, err := config.Parse("config.example.toml", exampleConfig, traits())
	if err != nil {
		return nil, err
	}
	c.Listeners[0].Address = listen
	c.Upstreams[0].Servers = []netip.AddrPort{server}
	return settings(c, 1), nil
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
