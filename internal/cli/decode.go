package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"tidegate/internal/decode"
)

func decodeCommand() *cli.Command {
	names := strings.Join(decode.Protocols(), ", ")
	return command(&cli.Command{
		Name:        "decode",
		Usage:       "explain a capture in plain words: JSON Lines, pcap or pcapng, also gzipped; - is standard input",
		Description: examples("tidegate decode --port 7777 game.pcap", "tidegate decode --json game.pcap"),
		ArgsUsage:   "FILE",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "protocol", Aliases: []string{"p"}, Usage: "treat all datagrams as `NAME`: " + names},
			&cli.UintFlag{Name: "port", Usage: "of pcap files, explain only the server at port `N`", DefaultText: "all"},
			&cli.BoolFlag{Name: "json", Usage: "print a JSON object for each datagram, and a summary"},
		},
		Action: func(c *cli.Context) error {
			name, port := c.String("protocol"), c.Uint("port")
			switch {
			case c.NArg() != 1:
				return misuse(errors.New("want one FILE"))
			case name != "" && !slices.Contains(decode.Protocols(), name):
				return misuse(fmt.Errorf("--protocol %q: want %s", name, names))
			case c.IsSet("port") && (port < 1 || port > 65535):
				return misuse(fmt.Errorf("--port %d: want 1 to 65535", port))
			}
			options := decode.Options{Protocol: name, Port: uint16(port), JSON: c.Bool("json")}
			if path := c.Args().First(); path != "-" {
				return decode.File(path, c.App.Writer, options)
			}
			if err := decode.Stream(c.App.Reader, c.App.Writer, options); err != nil {
				return fmt.Errorf("standard input: %w", err)
			}
			return nil
		},
	})
}
