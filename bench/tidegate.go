package bench

import (
	"fmt"
	"net/netip"
)

// way is how Tidegate is set up, beside the defaults.
type way struct {
	name     string
	upstream string // further lines of [[upstream]]
	forward  string // kernel.forward
}

// ways are those by which a route in mode relay can go, the best last.
var ways = []way{
	{"tidegate", "", "off"},
	{"tidegate-anyip", "source_prefix = \"127.64.0.0/10\"\n", "off"},
	{"tidegate-kernel", "", "auto"},
}

// relayConfig is the whole configuration of a relay: everything else is as shipped.
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
%s
[limits]
sessions = 100000
half_open = 100000
idle_timeout = "10m"
[kernel]
forward = %q
[loop]
count = 1
max_batch_delay = %q
[admin]
listen = "off"
`, listen, to, w.upstream, w.forward, o.Delay)
}

// startTidegate runs Tidegate one way.
func startTidegate(o *Options, w way, echo netip.AddrPort, dir string) (*subject, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	file, err := write(dir, w.name+".toml", relayConfig(o, w, addr, echo))
	if err != nil {
		return nil, err
	}
	command := append(append([]string(nil), o.Tidegate...), "run", "-c", file)
	return run(w.name, addr, command...)
}
