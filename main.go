// Command tidegate is a proxy for game servers: it ends each side's protocol and carries whole messages between them.
//
// Package internal/cli has the commands, internal/daemon the running proxy.
package main

import (
	_ "embed"
	"os"

	"tidegate/internal/cli"
)

// exampleConfig is the manual of the configuration, and the demo's configuration.
//
//go:embed config.example.toml
var exampleConfig []byte

func main() {
	os.Exit(cli.Main(exampleConfig))
}
