package config

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
)

// Fleet configures what several Tidegates share by NATS. It is off without Servers and Peers.
type Fleet struct {
	Name        string   `toml:"name" default:"tidegate"`
	Node        string   `toml:"node"`    // empty: the host's name
	Servers     []string `toml:"servers"` // URLs of NATS servers
	Credentials string   `toml:"credentials"`
	CA          string   `toml:"ca"`
	Certificate string   `toml:"certificate"`
	Key         string   `toml:"key"`
	Replicas    int      `toml:"replicas" default:"3"`
	Listen      string   `toml:"listen" default:"0.0.0.0:6222"` // of the embedded server, for those of the other nodes
	Peers       []string `toml:"peers"`                         // host:port of all nodes, each with a NATS server
	Secret      Secret   `toml:"secret"`                        // that the embedded servers share
	Store       string   `toml:"store" default:"fleet"`         // folder of the embedded server
	Follow      bool     `toml:"follow"`                        // players go on whose path leads to another node
	Limits      bool     `toml:"limits"`                        // those per address and network hold for all nodes
}

// On reports whether this Tidegate is part of a fleet.
func (f *Fleet) On() bool { return len(f.Servers) > 0 || f.Embedded() }

// Embedded reports whether this process runs a NATS server.
func (f *Fleet) Embedded() bool { return len(f.Peers) > 0 }

// NodeName returns the name of this node.
func (f *Fleet) NodeName() string {
	host, _ := os.Hostname() // validation has checked it
	return cmp.Or(f.Node, host)
}

// Copies returns the number of servers that keep the shared state.
func (f *Fleet) Copies() int {
	if f.Embedded() {
		return min(f.Replicas, len(f.Peers))
	}
	return f.Replicas
}

// ListenAddress returns the address of the embedded server.
func (f *Fleet) ListenAddress() netip.AddrPort {
	a, _ := netip.ParseAddrPort(f.Listen) // validation has checked it
	return a
}

// isServerURL reports whether a URL names a NATS server, and has nothing else but a user.
func isServerURL(at *url.URL) bool {
	return (at.Scheme == "nats" || at.Scheme == "tls") && isHostPort(at.Host) && at.Path == "" && at.RawQuery == ""
}

// isHostPort reports whether a text is a host, or an IP address, and a port.
func isHostPort(text string) bool {
	host, port, err := net.SplitHostPort(text)
	n, bad := strconv.ParseUint(port, 10, 16)
	return err == nil && bad == nil && n > 0 && (isHost(host) || net.ParseIP(host) != nil)
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
