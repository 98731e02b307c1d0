package cli

import (
	"fmt"
	"io"

	"github.com/pelletier/go-toml/v2"
	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
	"tidegate/internal/config"
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
