//go:build interop

package interop_test

import (
	"path/filepath"
	"testing"
)

// rustRaknet is a RakNet library in Rust of its own, newer than the one in raknet-node.
var rustRaknet = newRuntime(runtime{
	name: "rust-raknet", version: []string{"rustc", "--version"}, pins: "rust_raknet/Cargo.lock",
	builds: []string{"rust_raknet/Cargo.toml", "rust_raknet/main.rs"}, install: buildRustRaknet, compiled: true,
	line: func(dir string) (env, line []string) {
		return nil, []string{filepath.Join(dir, "release", "raknet-peer")}
	},
})

func buildRustRaknet(dir string) error {
	return command(filepath.Join("peers", "rust_raknet"), "cargo", "build", "--release", "--locked", "--quiet",
		"--target-dir", dir)
}

var (
	// rustClient sends reliable messages only: others cannot be in parts.
	rustClient = contender{name: "rust-raknet", transport: udp, noCookies: true,
		client: script(rustRaknet, "rust-raknet", "client")}
	rustServer = contender{name: "rust-raknet", transport: udp, protocol: "bedrock",
		server: server(rustRaknet, "rust-raknet", "server")}
)

// TestRustRakNet: the crate rust-raknet as client and as server, opposite itself and others.
func TestRustRakNet(t *testing.T) {
	for _, pair := range []struct{ from, to contender }{
		{rustClient, rustServer},
		{rustClient, goServer},
		{rustClient, stock11Server},
		{rustClient, pytideServers[0]},
		{goClient, rustServer},
		{stock11Client, rustServer},
		{cloudburstClient, rustServer},
		{pytideClients[0], rustServer},
	} {
		t.Run(pair.from.name+" to "+pair.to.name, func(t *testing.T) {
			client, between, server := meet(t, pair.from, pair.to)
			language := pair.from.language
			language.largest = largestRiptide
			language.bridged = pair.to.protocol == "riptide-2.2"
			if !language.bridged && !language.ids {
				language.largest = largestRakNet
			}
			talk(t, client, language)
			sayGoodbye(t, between, client, server)
		})
	}
}
