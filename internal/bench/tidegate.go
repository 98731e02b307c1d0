package bench

import (
	"fmt"
	"net/netip"

	"tidegate/internal/bench/process"
)

// way is how Tidegate is set up, beside the defaults.
type way struct {
	name     string
	upstream string // further lines of [[upstream]]
	forward  string // kernel.forward
}

const anyIP = "source_prefix = \"127.64.0.0/10\"\n"

// ways are those by which a route in mode relay can go, the best last.
var ways = []way{
	{"tidegate", "", "off"},
	{"tidegate-anyip", anyIP, "off"},
	{"tidegate-kernel", "", "auto"},
}

// relayConfig is the listener and route of a relay.
func relayConfig(o *Options, w way, listen, to netip.AddrPort) string {
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

// common is the rest of every configuration: room for all sessions at once, one loop, and no limits, which one client
// that sends as much as comes back would meet, or ten thousand who join at once. Everything else is as shipped.
func common(o *Options, w way, admin netip.AddrPort) string {
	text := fmt.Sprintf(`
[limits]
sessions = 200000
half_open = 200000
half_open_per_address = 200000
half_open_per_network = 200000
idle_timeout = "10m"
[kernel]
forward = %q
[loop]
count = 1
max_batch_delay = %q
[admin]
listen = %q
`, w.forward, o.Delay, admin)
	for _, limit := range [][2]string{
		{"packets", "session"}, {"bytes", "session"}, {"handshakes", "address"}, {"handshakes", "network"},
		{"handshakes", "overall"}, {"reliable_messages", "session"},
	} {
		text += fmt.Sprintf("[[limit]]\nof = %q\nper = %q\nrate = 1\nverdict = \"off\"\n", limit[0], limit[1])
	}
	return text
}

// startTidegate runs Tidegate with the configuration that config makes for its addresses.
func startTidegate(name, dir string, o *Options, config func(listen, admin netip.AddrPort) string) (*subject, error) {
	addr, err := process.FreeAddr(process.Loopback)
	if err != nil {
		return nil, err
	}
	admin, err := process.FreeTCPAddr()
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

// self is the command that is Tidegate, with arguments.
func (o *Options) self(args ...string) []string {
	return append(append([]string(nil), o.Tidegate...), args...)
}
