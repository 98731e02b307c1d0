package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"tidegate/internal/daemon"
	"tidegate/internal/demo"
	"tidegate/internal/setup"
)

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
