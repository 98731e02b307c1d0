package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	"tidegate/internal/regular"
)

// Fleet configures what several Tidegates share by NATS. It is off without Servers and Embedded.
type Fleet struct {
	Name        string   `toml:"name"`
	Node        string   `toml:"node"`    // empty: the host's name
	Servers     []string `toml:"servers"` // URLs of NATS servers
	Credentials string   `toml:"credentials"`
	NKey        string   `toml:"nkey"`
	CA          string   `toml:"ca"`
	Certificate string   `toml:"certificate"`
	Key         string   `toml:"key"`
	Replicas    int      `toml:"replicas"`
	Embedded    bool     `toml:"embedded"` // a NATS server in this process
	Listen      string   `toml:"listen"`   // of the embedded server, for those of the other nodes
	Peers       []string `toml:"peers"`    // host:port of the embedded servers of all nodes
	Secret      Secret   `toml:"secret"`   // that the embedded servers share
	Store       string   `toml:"store"`    // folder of the embedded server
	ReportEvery Duration `toml:"report_every" min:"50ms" max:"2s"`
	Follow      bool     `toml:"follow"` // players whose path leads to another node keep their sessions
	Limits      bool     `toml:"limits"` // limits per address and network hold for all nodes together
}

func defaultFleet() Fleet {
	return Fleet{
		Name: "tidegate", Servers: []string{}, Replicas: 3, Listen: "0.0.0.0:6222", Peers: []string{}, Store: "fleet",
		ReportEvery: Duration(250 * time.Millisecond),
	}
}

// On reports whether this Tidegate is part of a fleet.
func (f *Fleet) On() bool { return len(f.Servers) > 0 || f.Embedded }

// NodeName returns the name of this node.
func (f *Fleet) NodeName() string {
	if f.Node != "" {
		return f.Node
	}
	host, _ := os.Hostname() // validation has checked it
	return host
}

// Copies returns the number of servers that keep the shared state.
func (f *Fleet) Copies() int {
	if f.Embedded {
		return min(f.Replicas, max(1, len(f.Peers)))
	}
	return f.Replicas
}

// ListenAddress returns the address of the embedded server.
func (f *Fleet) ListenAddress() netip.AddrPort {
	a, _ := netip.ParseAddrPort(f.Listen) // validation has checked it
	return a
}

func (v *validator) fleet() {
	f := v.Fleet
	if !isBare(f.Name) || len(f.Name) > maxName {
		v.fault("fleet.name", f.Name, fmt.Sprintf("a name of 1 to %d letters, digits, - and _", maxName))
	}
	if f.Replicas != 1 && f.Replicas != 3 && f.Replicas != 5 {
		v.fault("fleet.replicas", f.Replicas, "1, 3 or 5")
	}
	v.fleetServers()
	if f.Embedded {
		v.fleetEmbedded()
	} else if len(f.Peers) > 0 {
		v.fault("fleet.peers", f.Peers, "no peers, or fleet.embedded = true")
	}
	if !f.On() {
		return
	}
	if f.Node != "" && !isBare(f.Node) || f.NodeName() == "" || len(f.NodeName()) > maxName {
		v.fault("fleet.node", f.Node, fmt.Sprintf("a name of 1 to %d letters, digits, - and _, different at each node",
			maxName))
	}
	v.fleetFiles()
}

// fleetServers checks the URLs of NATS servers.
func (v *validator) fleetServers() {
	f := v.Fleet
	if len(f.Servers) > 0 && f.Embedded {
		v.fault("fleet.embedded", f.Embedded, "false, or no fleet.servers: the embedded server is the only one of this node")
	}
	for i, text := range f.Servers {
		key := item(child("fleet", "servers"), i)
		at, err := url.Parse(text)
		switch {
		case err != nil || !isServerURL(at):
			if at != nil && at.User != nil {
				text = at.Redacted()
			}
			v.fault(key, text, `nats:// or tls://, host:port, for example "tls://nats.example.com:4222"`)
		case at.User != nil:
			v.fault(key, at.Redacted(), "a URL without a user: fleet.credentials or fleet.nkey names a file for that")
		case slices.Index(f.Servers, text) < i:
			v.fault(key, text, "each server once")
		case at.Scheme == "nats" && !isLoopback(at.Hostname()):
			v.warn(key, text, "tls://: without it, everybody on the path can impose bans and lift them")
		}
	}
}

// isServerURL reports whether a URL names a NATS server, and has nothing else but a user.
func isServerURL(at *url.URL) bool {
	return (at.Scheme == "nats" || at.Scheme == "tls") && isHostPort(at.Host) && at.Path == "" && at.RawQuery == ""
}

// fleetEmbedded checks the keys of the embedded server.
func (v *validator) fleetEmbedded() {
	f := v.Fleet
	listen, err := netip.ParseAddrPort(f.Listen)
	if err != nil || listen.Port() == 0 {
		v.fault("fleet.listen", f.Listen, `ip:port, for example "10.0.0.5:6222"`)
	}
	for i, peer := range f.Peers {
		key := item(child("fleet", "peers"), i)
		if !isHostPort(peer) {
			v.fault(key, peer, `host:port of a node's embedded server, for example "10.0.0.5:6222"`)
		} else if slices.Index(f.Peers, peer) < i {
			v.fault(key, peer, "each node once")
		}
	}
	if n := len(f.Peers); n == 2 {
		v.warn("fleet.peers", f.Peers, "three nodes or more: of two, both must run, or nothing is shared")
	}
	if f.Store == "" {
		v.fault("fleet.store", f.Store, `the path of a folder, for example "fleet"`)
	}
	for _, c := range []struct{ key, value string }{{"credentials", f.Credentials}, {"nkey", f.NKey}} {
		if c.value != "" {
			v.fault(child("fleet", c.key), c.value, "no file: fleet.secret is that of embedded servers")
		}
	}
	secret, err := v.loadSecret(f.Secret)
	v.Fleet.Secret = secret
	switch {
	case err != nil:
		v.fault("fleet.secret", f.Secret, fmt.Sprintf("a secret, or %q and the path of a file with it: %v", fileKey, err))
	case len(f.Peers) > 1 && !isToken(string(secret)), secret != "" && !isToken(string(secret)):
		v.fault("fleet.secret", f.Secret, fmt.Sprintf("%d to %d letters, digits and signs, the same at all nodes", minToken,
			maxToken))
	}
	if f.Certificate == "" && len(f.Peers) > 1 && err == nil && !listen.Addr().IsLoopback() {
		v.warn("fleet.certificate", f.Certificate,
			"a certificate, unless the network between the nodes is trusted: bans and the secret travel without TLS")
	}
}

// fleetFiles checks the files that the connection needs.
func (v *validator) fleetFiles() {
	f := v.Fleet
	if f.Credentials != "" && f.NKey != "" {
		v.fault("fleet.nkey", f.NKey, "no file, or no fleet.credentials: they exclude each other")
	}
	for _, c := range []struct{ key, path string }{{"credentials", f.Credentials}, {"nkey", f.NKey}, {"ca", f.CA}} {
		_, err := os.Stat(v.Path(c.path))
		if err == nil {
			err = regular.Check(v.Path(c.path))
		}
		if c.path != "" && err != nil {
			v.fault(child("fleet", c.key), c.path, fmt.Sprintf("the path of a file: %v", err))
		}
	}
	if (f.Certificate == "") != (f.Key == "") {
		v.fault("fleet.key", f.Key, "the path of the key of fleet.certificate; none without the other")
	} else if f.Certificate != "" {
		err := errors.Join(regular.Check(v.Path(f.Certificate)), regular.Check(v.Path(f.Key)))
		if err == nil {
			_, err = tls.LoadX509KeyPair(v.Path(f.Certificate), v.Path(f.Key))
		}
		if err != nil {
			v.fault("fleet.certificate", f.Certificate, fmt.Sprintf("a certificate in PEM that fits fleet.key: %v", err))
		}
	}
	if f.Embedded && f.Certificate != "" && f.CA == "" {
		v.fault("fleet.ca", f.CA, "the path of the authority's certificate, by which the nodes know one another")
	}
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
