package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFleetFaults reports each fault of [fleet] at its line and column, and shows no password.
func TestFleetFaults(t *testing.T) {
	for _, c := range []struct{ what, lines, fault string }{
		{"no scheme", `servers = ["10.0.0.1:4222"]`,
			`t.toml:2:12: fleet.servers[0] = "10.0.0.1:4222": want nats:// or tls://`},
		{"no port", `servers = ["tls://nats"]`, `fleet.servers[0] = "tls://nats": want nats:// or tls://`},
		{"a password", `servers = ["tls://ann:hunter2@nats:4222"]`, `want a URL without a user`},
		{"twice", `servers = ["tls://nats:4222", "tls://nats:4222"]`, `t.toml:2:31: fleet.servers[1]`},
		{"both", "servers = [\"tls://nats:4222\"]\npeers = [\"a:1\"]", `t.toml:3:9: fleet.peers = ["a:1"]: want no peers`},
		{"without a peer", "embedded = true", `fleet.embedded = true: want this key removed: a node with fleet.peers runs`},
		{"a bad peer", "peers = [\"10.0.0.1\"]", `fleet.peers[0] = "10.0.0.1": want host:port`},
		{"a peer twice", "peers = [\"a:1\", \"a:1\"]", `fleet.peers[1] = "a:1": want each node once`},
		{"no secret", "peers = [\"a:1\", \"b:1\", \"c:1\"]", `fleet.secret: want 16 to 200`},
		{"a short secret", "peers = [\"a:1\"]\nsecret = \"hunter2\"", `fleet.secret = "(hidden)": want 16 to 200`},
		{"no address", "peers = [\"a:1\"]\nlisten = \"6222\"", `fleet.listen = "6222": want ip:port`},
		{"no folder", "peers = [\"a:1\"]\nstore = \"\"", `fleet.store = "": want the path of a folder`},
		{"four copies", "peers = [\"a:1\"]\nreplicas = 4", `fleet.replicas = 4: want 1, 3 or 5`},
		{"a name of nonsense", `name = "a.b"`, `fleet.name = "a.b": want a name`},
		{"a node of nonsense", "peers = [\"a:1\"]\nnode = \"a b\"", `fleet.node = "a b": want a name`},
		{"no file", "servers = [\"tls://nats:4222\"]\ncredentials = \"missing\"",
			`fleet.credentials = "missing": want the path of a file`},
		{"an nkey apart", "servers = [\"tls://nats:4222\"]\nnkey = \"x\"", `fleet.nkey = "x": want this key removed`},
		{"credentials of nothing", "peers = [\"a:1\"]\ncredentials = \"x\"", `fleet.credentials = "x": want no file`},
		{"half a certificate", "servers = [\"tls://nats:4222\"]\ncertificate = \"x\"", `fleet.key`},
		{"no certificate", "servers = [\"tls://nats:4222\"]\ncertificate = \"x\"\nkey = \"x\"",
			`fleet.certificate = "x": want a certificate in PEM`},
	} {
		_, _, err := Parse("t.toml", []byte("[fleet]\n"+c.lines+"\n"), known)
		if err == nil || !strings.Contains(err.Error(), c.fault) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: faults\n%v\nwant one with %s, and no secret", c.what, err, c.fault)
		}
	}
}

// listening is the rest of a valid file.
const listening = `
[[listener]]
name = "public"
address = "127.0.0.1:7777"
protocols = ["raknet"]
route = "arena"
[[route]]
name = "arena"
upstream = "arena"
[[upstream]]
name = "arena"
protocol = "raknet"
servers = ["127.0.0.1:19132"]
`

// TestFleetWarnings warns of settings that work and are probably mistakes.
func TestFleetWarnings(t *testing.T) {
	for _, c := range []struct{ what, lines, warned string }{
		{"no TLS", `servers = ["nats://10.0.0.1:4222"]`, "fleet.servers[0]"},
		{"loopback", `servers = ["nats://127.0.0.1:4222"]`, ""},
		{"TLS", `servers = ["tls://10.0.0.1:4222"]`, ""},
		{"two nodes",
			"listen = \"127.0.0.1:6222\"\nsecret = \"0123456789abcdef\"\npeers = [\"a:1\", \"b:1\"]",
			"fleet.peers"},
		{"no TLS between nodes", "secret = \"0123456789abcdef\"\npeers = [\"a:1\", \"b:1\", \"c:1\"]",
			"fleet.certificate"},
		{"one node", `peers = ["a:1"]`, ""},
	} {
		_, warnings, err := Parse("t.toml", []byte(listening+"[fleet]\n"+c.lines+"\n"), known)
		got := Faults(warnings).Error()
		if err != nil || (c.warned == "") != (got == "") || !strings.Contains(got, c.warned) {
			t.Errorf("%s: %v, warnings %q, want one with %q", c.what, err, got, c.warned)
		}
	}
}

// TestFleetSecretFile reads the secret from a file.
func TestFleetSecretFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := listening + "[fleet]\nsecret = 'file:" + file + "'\npeers = [\"a:1\", \"b:1\", \"c:1\"]\n"
	c, _, err := Parse("t.toml", []byte(text), known)
	if err != nil || c.Fleet.Secret != "0123456789abcdef" || c.Fleet.Copies() != 3 {
		t.Errorf("%v, %+v", err, c)
	}
}
