package cli

import (
	"fmt"
	"io"
	"net/netip"
	"os"

	"github.com/pelletier/go-toml/v2"
	"github.com/urfave/cli/v2"
	"tidegate/internal/admin"
	"tidegate/internal/config"
	"tidegate/internal/setup"
)

func configCommand() *cli.Command {
	return group(&cli.Command{
		Name:  "config",
		Usage: "print the effective configuration, or the schema for editors",
		Subcommands: []*cli.Command{command(&cli.Command{
			Name:  "print",
			Usage: "print the configuration with every default, and without secrets",
			Flags: append(targetFlags(), jsonFlag, &cli.BoolFlag{
				Name: "running", Usage: "print the running proxy's configuration, which a refused file does not change",
			}, &cli.BoolFlag{Name: "changed", Usage: "print only values that are not defaults"}),
			Description: examples("tidegate config print", "tidegate config print --changed",
				"tidegate config print --running --json"),
			Action: printConfig,
		}), command(&cli.Command{
			Name:  "schema",
			Usage: "print the JSON schema of the configuration, for editors",
			Description: "Editors with Taplo, as VS Code with Even Better TOML, complete and check a file whose first line\n" +
				"names the schema: #:schema ./tidegate.schema.json\n\n" + examples("tidegate config schema"),
			Action: func(c *cli.Context) error {
				_, err := io.WriteString(c.App.Writer, config.Schema)
				return err
			},
		})},
	})
}

func printConfig(c *cli.Context) error {
	settled, err := configText(c)
	if err != nil {
		return err
	}
	text := settled.TOML
	if c.Bool("changed") {
		text = config.Changed(text, settled.Origins)
	}
	if !c.Bool("json") {
		fmt.Fprint(c.App.Writer, config.Annotate(text, settled.Origins))
		return nil
	}
	var tables map[string]any
	if err := toml.Unmarshal([]byte(text), &tables); err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	if len(settled.Origins) > 0 {
		tables["origins"] = settled.Origins
	}
	return printJSON(c, tables)
}

// configText returns the file's configuration, or the running proxy's.
func configText(c *cli.Context) (settled admin.Configuration, err error) {
	if !c.Bool("running") {
		_, file, err := load(c)
		if err != nil {
			return settled, err
		}
		return admin.Configuration{TOML: file.TOML(), Origins: file.Origins()}, nil
	}
	client, err := targetOf(c).client()
	if err != nil {
		return settled, err
	}
	err = client.Get(c.Context, "/api/v1/config", &settled)
	return settled, orMisuse(err)
}

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
