package cli

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"tidegate/internal/admin"
	"tidegate/internal/config"
	"tidegate/internal/protocols"
	"tidegate/internal/setup"
	"tidegate/packaging/wireshark"
)

// tellDissectors prints the line that shows a capture's messages in Wireshark, with the ports of the running proxy.
// Without an answer of the proxy it prints nothing.
func tellDissectors(c *cli.Context, client *admin.Client, file string) {
	if file == "-" {
		return
	}
	var running admin.Configuration
	if err := client.Get(c.Context, "/api/v1/config", &running); err != nil {
		return
	}
	settled, _, err := setup.Parse("", []byte(running.TOML))
	if err != nil {
		return
	}
	if ports := decodeAs(settled); len(ports) > 0 {
		fmt.Fprintf(c.App.ErrWriter, "tidegate capture --lua > tidegate.lua && tshark -X lua_script:tidegate.lua %s -r %s\n",
			strings.Join(ports, " "), file)
	}
}

// mostPorts bounds the ports of one line.
const mostPorts = 64

// decodeAs returns the flags of tshark that name the protocol of each UDP port in a configuration. A listener with
// several protocols counts as its first one.
func decodeAs(c *config.Config) (flags []string) {
	known := make(map[int]bool)
	add := func(at config.Address, protocol string) {
		d := protocols.Find(protocol)
		if d == nil || wireshark.Names[d.Name] == "" {
			return
		}
		for i := range at.Ports() {
			if port := int(at.Port()) + i; port > 0 && !known[port] && len(flags) < 2*mostPorts {
				known[port] = true
				flags = append(flags, "-d", fmt.Sprintf("udp.port==%d,%s", port, wireshark.Names[d.Name]))
			}
		}
	}
	for i := range c.Listeners {
		if l := &c.Listeners[i]; l.Transport == config.UDP && len(l.Protocols) > 0 {
			add(l.Address, l.Protocols[0])
		}
	}
	for i := range c.Upstreams {
		for j := range c.Upstreams[i].Servers {
			add(c.Upstreams[i].Servers[j].Address, c.Upstreams[i].Protocol)
		}
	}
	return flags
}
