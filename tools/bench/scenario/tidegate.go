package scenario

import (
	"fmt"
	"net/netip"

	"tidegate/internal/testkit/freeport"
	"tidegate/tools/bench/process"
)

// setup is a configuration of Tidegate that differs from the defaults.
type setup struct {
	name     string
	upstream string // more lines of [[upstream]]
	forward  string // kernel.forward
}

const anyIP = "sources = [\"127.64.0.0/10\"]\n"

// relaySetups are Tidegate's setups for relayed sessions, the best one last.
var relaySetups = []setup{
	{"tidegate", "", "off"},
	{"tidegate-source-prefix", anyIP, "off"},
	{"tidegate-kernel", "", "auto"},
}

// relayConfig returns the listener and route of a relay.
func relayConfig(o *Options, w setup, listen, to netip.AddrPort) string {
	return fmt.Sprintf(`
[[listener]]
name = "bench"
address = %q
protocols = ["any"]
route = "bench"
[[route]]
name = "bench"
upstream = "bench"
mode = "relay"
[[upstream]]
name = "bench"
protocol = "any"
servers = [%q]
%s`, listen, to, w.upstream)
}

// common returns the rest of each configuration: room for all sessions, Options.Loops, and no rate limits, which a
// client at full speed or 10,000 joining clients would reach. All other keys have their defaults.
func common(o *Options, w setup, admin netip.AddrPort) string {
	text := fmt.Sprintf(`
[limits]
sessions = 200000
half_open = 200000
sessions_per_address = 200000
half_open_per_address = 200000
idle_timeout = "10m"
trusted_networks = ["127.0.0.0/8"]
[kernel]
forward = %q
[loop]
count = %d
max_batch_delay = %q
[admin]
listen = %q
`, w.forward, max(o.Loops, 1), o.Delay, admin)
	for _, limit := range [][2]string{
		{"packets", "session"}, {"bytes", "session"}, {"handshakes", "address"}, {"handshakes", "network"},
		{"handshakes", "overall"}, {"reliable_messages", "session"},
	} {
		text += fmt.Sprintf("[[limit]]\nof = %q\nper = %q\nrate = 1\nverdict = \"off\"\n", limit[0], limit[1])
	}
	return text
}

// startTidegate runs Tidegate with the configuration that config returns for its addresses.
func startTidegate(name, dir string, o *Options, config func(listen, admin netip.AddrPort) string) (*subject, error) {
	addr, err := freeport.Find(process.Loopback)
	if err != nil {
		return nil, err
	}
	admin, err := freeport.Find(process.Loopback)
	if err != nil {
		return nil, err
	}
	file, err := process.WriteFile(dir, name+".toml", config(addr, admin))
	if err != nil {
		return nil, err
	}
	return startWithAdmin(name, addr, admin, o.self("run", "-c", file)...)
}

// startWithAdmin starts a program and waits until its admin server accepts connections.
func startWithAdmin(name string, addr, admin netip.AddrPort, command ...string) (*subject, error) {
	p, err := process.Start(name, addr, command...)
	if err != nil {
		return nil, err
	}
	if err := p.AwaitTCP(admin); err != nil {
		return nil, err
	}
	return &subject{Process: p, admin: admin}, nil
}

// self returns the command that runs Tidegate, with arguments.
func (o *Options) self(args ...string) []string {
	return append(append([]string(nil), o.Tidegate...), args...)
}
