// Command manual writes the program's manual pages in the language man(7). Run it in the folder of
// config.example.toml.
package main

import (
	"errors"
	"fmt"
	"os"

	"tidegate/internal/cli"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "manual:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("want FOLDER, for man1/tidegate.1 and so on")
	}
	exampleConfig, err := os.ReadFile("config.example.toml")
	if err != nil {
		return err
	}
	return writeManual(manual(cli.App(exampleConfig), string(exampleConfig)), args[0])
}
