package cli

import (
	"fmt"

	"github.com/pelletier/go-toml/v2"
	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
	"tidegate/internal/config"
)

func configCommand(exampleConfig []byte) *cli.Command {
	return group(&cli.Command{
		Name:  "config",
		Usage: "print the effective configuration, or the schema for editors",
		Subcommands: []*cli.Command{command(&cli.Command{
			Name:  "print",
			Usage: "print the configuration with every default, and without secrets",
			Flags: []cli.Flag{configFlag, adminFlag, jsonFlag, &cli.BoolFlag{
				Name: "running", Usage: "print the running proxy's configuration, which a refused file does not change",
			}, &cli.BoolFlag{Name: "changed", Usage: "print only values that are not defaults"}},
			Description: examples("tidegate config print", "tidegate config print --changed",
				"tidegate config print --running --json"),
			Action: printConfig,
		}), command(&cli.Command{
			Name:  "schema",
			Usage: "print the JSON schema of the configuration, for editors",
			Description: "Editors with Taplo, as VS Code with Even Better TOML, complete and check a file whose first line\n" +
				"names the schema: #:schema ./tidegate.schema.json\n\n" + examples("tidegate config schema"),
			Action: func(c *cli.Context) error {
				if err := wantArguments(c); err != nil {
					return err
				}
				_, err := c.App.Writer.Write(config.Schema(string(exampleConfig)))
				return err
			},
		})},
	})
}

func printConfig(c *cli.Context) error {
	text, err := configText(c)
	if err != nil {
		return err
	}
	if c.Bool("changed") {
		text = config.Changed(text)
	}
	if !c.Bool("json") {
		fmt.Fprint(c.App.Writer, text)
		return nil
	}
	var tables map[string]any
	if err := toml.Unmarshal([]byte(text), &tables); err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	return printJSON(c, tables)
}

// configText returns the file's configuration, or the running proxy's, as TOML.
func configText(c *cli.Context) (string, error) {
	if !c.Bool("running") {
		_, settled, err := load(c)
		if err != nil {
			return "", err
		}
		return settled.TOML(), nil
	}
	if err := wantArguments(c); err != nil {
		return "", err
	}
	client, err := targetOf(c).client()
	if err != nil {
		return "", err
	}
	var running admin.Configuration
	err = client.Get(c.Context, "/api/v1/config", &running)
	return running.TOML, orMisuse(err)
}
