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
	"strings"

	"tidegate/internal/regular"
)

// loadSecret returns a secret's text. If it is "file:" and a path, loadSecret reads the file.
func (v *validator) loadSecret(s Secret) (Secret, error) {
	path, ok := strings.CutPrefix(string(s), fileKey)
	if !ok {
		return s, nil
	}
	text, err := regular.ReadFile(v.Path(path))
	return Secret(strings.TrimSpace(string(text))), err
}

func (v *validator) admin() {
	a := v.Admin
	local := true
	if path, ok := strings.CutPrefix(string(a.Listen), "unix:"); ok {
		if path == "" || len(path) > socketPath {
			v.fault("admin.listen", a.Listen, fmt.Sprintf("a path of 1 to %d bytes after unix:", socketPath))
		}
	} else if a.Listen != AdminAuto && a.Listen != AdminOff {
		addr, err := netip.ParseAddrPort(string(a.Listen))
		if err != nil || addr.Port() == 0 {
			v.fault("admin.listen", a.Listen,
				`"auto", ip:port, for example "127.0.0.1:9470", "unix:/run/tidegate/admin.sock" or "off"`)
		}
		local = err != nil || addr.Addr().Unmap().IsLoopback()
	}
	if inline := a.Token != "" && !strings.HasPrefix(string(a.Token), fileKey); inline && openToAll(v.source.name()) {
		v.warn("admin.token", a.Token, "a file that other users of this machine cannot read: chmod o= "+v.source.name())
	}
	token, err := v.loadSecret(a.Token)
	v.Admin.Token = token
	switch {
	case err != nil:
		v.fault("admin.token", a.Token, fmt.Sprintf("a token, or %q and the path of a file with it: %v", fileKey, err))
	case token == "" && !local:
		v.fault("admin.token", nil, fmt.Sprintf("a token of %d characters or more, since admin.listen is not on loopback",
			minToken))
	case token != "" && !isToken(string(token)):
		v.fault("admin.token", a.Token, fmt.Sprintf("%d to %d letters, digits and signs", minToken, maxToken))
	}
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
	if f.Embedded() {
		v.fleetEmbedded()
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
	if len(f.Servers) > 0 && f.Embedded() {
		v.fault("fleet.peers", f.Peers, "no peers, or no fleet.servers: the embedded server is the only one of this node")
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
			v.fault(key, at.Redacted(), "a URL without a user: fleet.credentials names a file for that")
		case slices.Index(f.Servers, text) < i:
			v.fault(key, text, "each server once")
		case at.Scheme == "nats" && at.Hostname() != "localhost" && !net.ParseIP(at.Hostname()).IsLoopback():
			v.warn(key, text, "tls://: without it, everybody on the path can impose bans and lift them")
		}
	}
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
	if f.Credentials != "" {
		v.fault("fleet.credentials", f.Credentials, "no file: fleet.secret is that of embedded servers")
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
	for _, c := range []struct{ key, path string }{{"credentials", f.Credentials}, {"ca", f.CA}} {
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
	if f.Embedded() && f.Certificate != "" && f.CA == "" {
		v.fault("fleet.ca", f.CA, "the path of the authority's certificate, by which the nodes know one another")
	}
}

func (v *validator) kernel() {
	k := v.Kernel
	for i, name := range k.XDP {
		path := item("kernel.xdp", i)
		switch {
		case name == "" || len(name) > longestInterface:
			v.fault(path, name, fmt.Sprintf("the name of an interface, 1 to %d characters, as in: ip link", longestInterface))
		case slices.Contains(k.XDP[:i], name):
			v.fault(path, name, "each interface once")
		}
	}
	if len(k.XDP) > 0 && k.Filter == KernelOff {
		v.fault("kernel.xdp", k.XDP, `an empty list while kernel.filter = "off", or filter = "auto"`)
	}
}

func (v *validator) bans() {
	b := v.Bans
	if b.Longest < b.First {
		v.fault("bans.longest", b.Longest, fmt.Sprintf("not less than bans.first, which is %s", b.First))
	}
}

func (v *validator) record() {
	r := v.Record
	if r.Directory != "" && r.Last == 0 {
		v.warn("record.directory", r.Directory, fmt.Sprintf("record.last above %q: nothing is recorded", "0s"))
	}
}

func (v *validator) loop() {
	if v.Loop.Count > 1 && v.Loop.Backend == BackendPortable {
		v.fault("loop.count", v.Loop.Count, `1, or loop.backend = "auto": portable sockets cannot share a port between loops`)
	}
}
