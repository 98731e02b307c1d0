//go:build interop

package interop_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// packetByte marks bridged messages on RakNet's side. It is the only first byte that all libraries here pass on.
const packetByte = 0xfe

// Transports, as in the configuration and the log.
const (
	udp = "udp"
	tcp = "tcp"
)

// netipAt returns the address of a port of this machine.
func netipAt(port string) netip.AddrPort { return netip.MustParseAddrPort("127.0.0.1:" + port) }

// proxy is a running Tidegate.
type proxy struct {
	*process
	ports   map[string]string // listening ports, by route, and the first ones by transport
	journal chan journalEntry
}

// journalEntry is a line of Tidegate's log.
type journalEntry struct {
	Time      time.Time
	Message   string
	Address   string
	Transport string
	Route     string
	Reason    string
	By        string
	Successor int
	Servers   int
}

// route is the way of a proxy's clients to a server.
type route struct {
	protocol  string // the server's protocol
	transport string // transport to the server
	host      string // the server's host; empty: 127.0.0.1
	listen    string // the host of the UDP listener; empty: 127.0.0.1
	server    string // the server's port
	noCookies bool   // for clients whose library has no cookies
	players   string // the clients' RakNet dialect; empty: bedrock
	admit     string // the route's admit; empty: upstream_first
	failover  string // more keys of [[route]]
	upstream  string // more keys of [[upstream]]
	bedrock   string // more keys of [raknet]
	enet      string // keys of [enet]
	limits    string // more keys of [limits]
}

// startTidegate runs the binary between clients of every protocol, over UDP and TCP, and one server.
func startTidegate(t *testing.T, to route) *proxy {
	t.Helper()
	return runTidegate(t, to.configuration(), 2)
}

// runTidegate runs the binary with a configuration of some listeners.
func runTidegate(t *testing.T, configuration string, listeners int) *proxy {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tidegate.toml")
	if err := os.WriteFile(path, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &proxy{ports: make(map[string]string), journal: make(chan journalEntry, 1000)}
	heard := func(line []byte) {
		var entry journalEntry
		if json.Unmarshal(line, &entry) == nil {
			p.journal <- entry
		}
	}
	p.process = start(t, nil, heard, tidegate, "run", "-c", path)
	for range listeners {
		listening := p.await(t, "listening")
		port := portOf(t, listening.Address)
		p.ports[listening.Route] = port
		if p.ports[listening.Transport] == "" {
			p.ports[listening.Transport] = port
		}
	}
	return p
}

// openTidegate runs the binary with a configuration of one listener, and returns where it listens. enter begins its
// command line.
func openTidegate(t *testing.T, enter []string, configuration string) (p *proxy, address string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tidegate.toml")
	if err := os.WriteFile(path, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	p = &proxy{journal: make(chan journalEntry, 1000)}
	p.process = start(t, nil, func(line []byte) {
		var entry journalEntry
		if json.Unmarshal(line, &entry) == nil {
			select {
			case p.journal <- entry:
			default:
			}
		}
	}, append(slices.Clone(enter), tidegate, "run", "-c", path)...)
	return p, p.await(t, "listening").Address
}

// configuration tolerates slow peers. Riptide closes a connection after 15 unacknowledged transmissions, here 10 ms
// apart, and pytide may pause for longer.
func (r route) configuration() string {
	players := cmp.Or(r.players, "bedrock")
	return fmt.Sprintf(`
[[listener]]
name = "public"
address = %q
protocols = [%q, "riptide-2.2", "enet"]
route = "arena"
[[listener]]
name = "stream"
transport = "tcp"
address = "127.0.0.1:0"
protocols = ["riptide-2.2"]
route = "arena"
[[route]]
name = "arena"
upstream = "arena"
ordered = "fast"
admit = %q
packet_id = %d
%s
[[upstream]]
name = "arena"
protocol = %q
transport = %q
servers = [%q]
%s
[raknet]
%s
%s
pong = "MCPE;the arena;844;1.21.111;0;100;1;Tidegate;Survival;1;19132;19132;"
[enet]
%s
[limits]
handshake_timeout = "30s"
%s
[riptide]
quality_disconnect = false
[log]
format = "json"
[admin]
listen = "off"
`, net.JoinHostPort(cmp.Or(r.listen, "127.0.0.1"), "0"), players, cmp.Or(r.admit, "upstream_first"), packetByte,
		r.failover, r.protocol, r.transport, net.JoinHostPort(cmp.Or(r.host, "127.0.0.1"), r.server), r.upstream,
		map[bool]string{true: `cookie_mode = "none"`}[r.noCookies], r.bedrock, r.enet, r.limits)
}

// await reads the log until a message.
func (p *proxy) await(t *testing.T, message string) journalEntry {
	t.Helper()
	late := time.After(3 * patience) // a silent server takes half of the handshake's 30 s
	for {
		select {
		case entry := <-p.journal:
			if entry.Message == message {
				return entry
			}
		case <-late:
			t.Fatalf("Tidegate's log has no %q after %s", message, 3*patience)
		}
	}
}

// stop asks for a graceful stop and checks it.
func (p *proxy) stop(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.await(t, "tidegate stopped")
	if err := p.wait(); err != nil {
		t.Errorf("SIGTERM: %v, want exit code 0", err)
	}
}
