// Package wireshark has the dissectors of Wireshark for the protocols of game servers.
package wireshark

import _ "embed"

// Dissector is the text of tidegate.lua.
//
//go:embed tidegate.lua
var Dissector string

// Names are Wireshark's names of the dissectors, by the protocols' names in the configuration.
var Names = map[string]string{
	"riptide-2.2": "riptide22", "riptide-2.0": "riptide20", "rudp": "rudpgame", "raknet": "raknet4", "bedrock": "raknet4",
	"nethernet": "nethernet", "enet": "enet13",
}
