package cli

import (
	"fmt"
	"net/netip"
	"os"

	"github.com/urfave/cli/v2"

	"tidegate/internal/config"
	"tidegate/internal/setup"
)

func initCommand() *cli.Command {
	return command(&cli.Command{
		Name:  "init",
		Usage: "write a first configuration for two protocols",
		Description: "The configuration has only the keys that the pair needs, and passes check. Without -o it goes to\n" +
			"standard output. A file that exists is never changed.\n\n" +
			examples("tidegate init --from riptide-2.2 --to raknet -o riptide.toml",
				"tidegate init --from bedrock --to bedrock --server 10.0.0.5:19132", "tidegate init --from nethernet",
				"tidegate init --relay --from any"),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "from", Value: "riptide-2.2", Usage: "`PROTOCOL` of the clients"},
			&cli.StringFlag{Name: "to", Value: "raknet", Usage: "`PROTOCOL` of the game server"},
			&cli.BoolFlag{Name: "relay", Usage: "pass datagrams unchanged; --from may be any, and --to is not used"},
			&cli.StringFlag{Name: "listen", Usage: "`ADDRESS` for clients", DefaultText: "0.0.0.0 and the game's usual port"},
			&cli.StringFlag{Name: "server", Usage: "`ADDRESS` of the game server", DefaultText: "127.0.0.1 and a port"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, TakesFile: true, Usage: "write to a new `FILE`"},
		},
		Action: func(c *cli.Context) error {
			text, err := starter(c)
			if err != nil {
				return err
			}
			if path := c.String("output"); path != "" {
				return writeStarter(c, path, text)
			}
			fmt.Fprint(c.App.Writer, text)
			return nil
		},
	})
}

// starter returns a checked configuration for the flags.
func starter(c *cli.Context) (string, error) {
	listen, server := exampleListener, exampleServer
	if from := c.String("from"); from == "bedrock" || from == setup.Edge { // Minecraft looks for servers at this port
		listen, server = netip.AddrPortFrom(listen.Addr(), server.Port()), netip.AddrPortFrom(server.Addr(), server.Port()+1)
	}
	for flag, address := range map[string]*netip.AddrPort{"listen": &listen, "server": &server} {
		if err := addressFlag(c, flag, address); err != nil {
			return "", err
		}
	}
	text, err := starterOf(c, listen, server)
	if err != nil {
		return "", misuse(err)
	}
	_, warnings, err := config.Parse("configuration", []byte(text), setup.Traits())
	for _, w := range warnings {
		fmt.Fprintln(c.App.ErrWriter, "warning:", w)
	}
	if err != nil {
		return "", faulty(err)
	}
	return text, nil
}

// starterOf returns the text for the protocols of the flags.
func starterOf(c *cli.Context, listen, server netip.AddrPort) (string, error) {
	if c.Bool("relay") && c.String("from") == relayAny {
		return config.StarterOfAny(listen, server), nil
	}
	to := c.String("to")
	if c.Bool("relay") || c.String("from") == setup.Edge && !c.IsSet("to") {
		to = c.String("from")
	}
	pair, err := config.NewStarter(c.String("from"), to)
	switch {
	case err != nil:
		return "", err
	case c.Bool("relay"):
		return pair.Relay(listen, server), nil
	}
	return pair.Usual(listen, server), nil
}

// relayAny is the name for protocols that Tidegate does not speak.
const relayAny = "any"

// addressFlag reads the address of a flag into address, if the flag is set.
func addressFlag(c *cli.Context, flag string, address *netip.AddrPort) error {
	text := c.String(flag)
	if text == "" {
		return nil
	}
	var err error
	if *address, err = netip.ParseAddrPort(text); err != nil || address.Port() == 0 {
		return misuse(fmt.Errorf(`--%s %q: want IP:PORT, for example "127.0.0.1:7777"`, flag, text))
	}
	return nil
}

// writeStarter writes a configuration to a new file.
func writeStarter(c *cli.Context, path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if os.IsExist(err) {
		return fmt.Errorf("%s exists: choose another file, or remove it first", path)
	}
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	_, err = file.WriteString(text)
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	fmt.Fprintf(c.App.Writer, "%s written. Next: tidegate check -c %s, then tidegate run -c %s\n", path, path, path)
	return nil
}
