package doctor

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"tidegate/internal/config"
	"tidegate/internal/setup"
)

const configuration = `
[[listener]]
name = "public"
address = "0.0.0.0:7777"
protocols = ["raknet"]
route = "arena"
[[route]]
name = "arena"
upstream = "arena"
[[upstream]]
name = "arena"
protocol = "raknet"
servers = ["10.0.0.5:19132", "10.0.0.6:19132"]
discover = ["games.example:19132", "file:servers.txt"]
kubernetes = { service = "arena" }
`

// edge has a listener for NetherNet.
const edge = `
[[listener]]
name = "edge"
address = "0.0.0.0:19133"
protocols = ["bedrock", "nethernet"]
route = "edge"
[[route]]
name = "edge"
upstream = "edge"
mode = "relay"
[[upstream]]
name = "edge"
protocol = "bedrock"
servers = ["10.0.0.9:19132"]
`

func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	c, _, err := config.Parse("tidegate.toml", []byte(text), setup.Traits())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// files are the files of a made-up machine.
type files map[string]string

func (f files) read(name string) ([]byte, error) {
	text, ok := f[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return []byte(text), nil
}

// healthy returns a machine without a fault, and its files.
func healthy() (Machine, files) {
	f := files{
		"servers.txt":                                "10.0.0.7:19132\n",
		"/proc/sys/net/ipv4/ip_local_port_range":     "32768\t60999\n",
		"/proc/sys/net/netfilter/nf_conntrack_max":   "262144\n",
		"/proc/sys/net/netfilter/nf_conntrack_count": "12\n",
		"/proc/net/softnet_stat":                     "0000ffff 00000000 00000000\n0000ffff 00000000 00000000\n",
		"/proc/net/udp":                              udpTable("1E61", "0"),
	}
	return Machine{
		ReadFile: f.read, Descriptors: func() uint64 { return 65536 }, Shortfalls: func() []Finding { return nil },
		Kernel: func() (filter, forward error) { return nil, nil }, Sources: func() error { return nil },
		Listen:  func(string, netip.AddrPort) error { return nil },
		Cluster: func(context.Context, *config.Upstream) error { return nil },
		Lookup: func(context.Context, netip.AddrPort, config.Discover) ([]string, error) {
			return []string{"10.0.0.8"}, nil
		},
		PathMTU: func(netip.AddrPort) (int, error) { return 1500, nil }, Interpreted: func() string { return "" },
		Ask: func(context.Context) []Answer {
			return []Answer{{Upstream: "arena", Server: "10.0.0.5:19132", Asked: true}}
		},
		Addresses: func() ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("203.0.113.9")}, nil
		},
		Running:  func(context.Context) (string, error) { return "", nil },
		ClockOff: func() (off, known bool) { return false, true },
	}, f
}

// udpTable returns a file like /proc/net/udp with a socket at a port, and its drops.
func udpTable(port, drops string) string {
	return "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref " +
		"pointer drops\n  641: 00000000:" + port + " 00000000:0000 07 00000000:00000000 00:00000000 00000000     0 " +
		"0 23342 2 0000000000000000 " + drops + "\n"
}

// TestHealthyMachine examines a machine without faults: no check finds any.
func TestHealthyMachine(t *testing.T) {
	m, _ := healthy()
	results := Examine(t.Context(), parse(t, configuration), m)
	if len(results) != len(Checks) {
		t.Errorf("%d results of %d checks", len(results), len(Checks))
	}
	for _, r := range results {
		if len(r.Findings) > 0 || r.Detail == "" || r.Detail == unknown {
			t.Errorf("%+v", r)
		}
	}
}

// faults are machines with one fault each. Every check has at least one.
var faults = []struct {
	check    string
	severity Severity
	plant    func(*Machine, files)
	text     string // part of the finding
	remedy   string // part of it
}{
	{"admin", Problem, func(m *Machine, _ files) {
		m.Running = func(context.Context) (string, error) { return "", errors.New("status 404") }
	}, "status 404", "another admin.listen"},
	{"admin", Advice, func(m *Machine, _ files) {
		m.Running = func(context.Context) (string, error) { return "[log]", nil }
	}, "another configuration", "tidegate reload"},
	{"descriptors", Problem, func(m *Machine, _ files) { m.Descriptors = func() uint64 { return 1024 } },
		"1024 descriptors are allowed, but limits.sessions = 10000 needs 10064", "ulimit -n 10064"},
	{"ports", Problem, func(_ *Machine, f files) { f["/proc/sys/net/ipv4/ip_local_port_range"] = "60000 60999" },
		"upstream arena: 1000 local ports", "ip_local_port_range"},
	{"buffers", Advice, func(m *Machine, _ files) {
		m.Shortfalls = func() []Finding { return []Finding{{Advice, "small", "sysctl"}} }
	}, "small", "sysctl"},
	{"tracking", Advice, func(_ *Machine, f files) { f["/proc/sys/net/netfilter/nf_conntrack_max"] = "8192" },
		"at most 8192 connections", "nf_conntrack_max=40000"},
	{"kernel", Advice, func(m *Machine, _ files) {
		m.Kernel = func() (filter, forward error) { return errors.New("not permitted"), errors.New("not permitted") }
	}, "not permitted", "CAP_BPF"},
	{"modules", Advice, func(m *Machine, _ files) { m.Interpreted = func() string { return "no memory" } },
		"no memory", "systemctl edit tidegate"},
	{"sources", Problem, func(m *Machine, _ files) { m.Sources = func() error { return errors.New("no local route") } },
		"no local route", "docs/operate/addresses.md"},
	{"listeners", Problem, func(m *Machine, _ files) { m.Listen = refuse(syscall.EADDRINUSE) },
		"listener public: ", "ss -lunp 'sport = :7777'"},
	{"listeners", Problem, func(m *Machine, _ files) { m.Listen = refuse(syscall.EADDRNOTAVAIL) }, "listener public: ",
		"0.0.0.0 is none"},
	{"listeners", Problem, func(m *Machine, _ files) { m.Listen = refuse(syscall.EACCES) }, "listener public: ",
		"CAP_NET_BIND_SERVICE"},
	{"joins", Advice, func(m *Machine, _ files) {
		m.Addresses = func() ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("172.17.0.2"), netip.MustParseAddr("127.0.0.1")}, nil
		}
	}, "outside a container", "addresses that players reach"},
	{"names", Problem, func(m *Machine, _ files) {
		m.Lookup = func(context.Context, netip.AddrPort, config.Discover) ([]string, error) {
			return nil, &net.DNSError{Err: "no such host", Name: "games.example", IsNotFound: true}
		}
	}, "games.example:19132: lookup games.example: no such host", "resolver"},
	{"names", Problem, func(m *Machine, _ files) {
		m.Lookup = func(context.Context, netip.AddrPort, config.Discover) ([]string, error) { return nil, nil }
	}, "no addresses", "resolver"},
	{"names", Problem, func(m *Machine, _ files) {
		m.Cluster = func(context.Context, *config.Upstream) error { return errors.New("forbidden") }
	}, "upstream arena: forbidden", "docs/recipes/kubernetes.md"},
	{"names", Problem, func(_ *Machine, f files) { delete(f, "servers.txt") }, "servers.txt", "write the file"},
	{"mtu", Problem, func(m *Machine, _ files) {
		m.PathMTU = func(a netip.AddrPort) (int, error) {
			if a.Addr() == netip.MustParseAddr("10.0.0.6") {
				return 1420, nil
			}
			return 1500, nil
		}
	}, "10.0.0.6:19132 carries packets of 1420 bytes, and raknet.max_mtu allows 1492", "raknet.max_mtu = 1420"},
	{"servers", Problem, func(m *Machine, _ files) {
		m.Ask = func(context.Context) []Answer {
			return []Answer{{"arena", "10.0.0.5:19132", true, "no answer in 3s"}, {"arena", "10.0.0.6:19132", true, ""}}
		}
	}, "10.0.0.5:19132: no answer in 3s", "start the game server"},
	{"drops", Advice, func(_ *Machine, f files) { f["/proc/net/udp"] = udpTable("1E61", "17") },
		"dropped 17 datagrams", "loop.receive_buffer"},
	{"drops", Advice, func(_ *Machine, f files) { f["/proc/net/softnet_stat"] = "0000ffff 0000001f 00000000\n" },
		"dropped 31 packets", "netdev_max_backlog"},
	{"clock", Advice, func(m *Machine, _ files) { m.ClockOff = func() (off, known bool) { return true, true } },
		"no time server", "set-ntp"},
}

func refuse(errno syscall.Errno) func(string, netip.AddrPort) error {
	return func(string, netip.AddrPort) error { return &net.OpError{Op: "listen", Net: "udp", Err: errno} }
}

// TestEachFaultIsFound plants one fault at a time. Its check finds it, with the remedy, and no other check does.
func TestEachFaultIsFound(t *testing.T) {
	seen := make(map[string]bool)
	for _, fault := range faults {
		seen[fault.check] = true
		m, f := healthy()
		fault.plant(&m, f)
		text := configuration
		if fault.check == "joins" {
			text = edge + configuration
		}
		for _, r := range Examine(t.Context(), parse(t, text), m) {
			switch {
			case r.Check != fault.check && len(r.Findings) > 0:
				t.Errorf("%q: %s finds %+v", fault.text, r.Check, r.Findings)
			case r.Check == fault.check && len(r.Findings) != 1:
				t.Errorf("%q: %s finds %+v, want one finding", fault.text, r.Check, r.Findings)
			case r.Check == fault.check:
				found := r.Findings[0]
				if found.Severity != fault.severity || !strings.Contains(found.Text, fault.text) ||
					!strings.Contains(found.Remedy, fault.remedy) {
					t.Errorf("%s finds %+v; want %q with the remedy %q", r.Check, found, fault.text, fault.remedy)
				}
			}
		}
	}
	for _, check := range Checks {
		if !seen[check.Name] {
			t.Errorf("no fault tests %s", check.Name)
		}
	}
}

// TestOtherConfigurations plants faults that a configuration makes harmless.
func TestOtherConfigurations(t *testing.T) {
	m, f := healthy()
	m.Descriptors = func() uint64 { return 1024 }
	f["/proc/sys/net/ipv4/ip_local_port_range"] = "60000 60999"
	f["/proc/net/udp"] = udpTable("1E62", "17") // the socket of another program
	m.Listen = refuse(syscall.EADDRINUSE)
	m.Kernel = func() (filter, forward error) { return nil, errors.New("not permitted") }
	c := parse(t, configuration+"sources = [\"shared\"]\n")                    // of the upstream, the last table
	m.Running = func(context.Context) (string, error) { return c.TOML(), nil } // and so has the port
	for _, r := range Examine(t.Context(), c, m) {
		if len(r.Findings) > 0 {
			t.Errorf("%+v", r)
		}
	}
}

// TestUnknownMachine examines a machine that answers nothing, as on other systems than Linux: it finds nothing.
func TestUnknownMachine(t *testing.T) {
	m, f := healthy()
	clear(f)
	f["servers.txt"] = ""
	m.Descriptors = func() uint64 { return 0 }
	m.PathMTU = func(netip.AddrPort) (int, error) { return 0, errors.New("unknown") }
	m.ClockOff = func() (off, known bool) { return false, false }
	for _, r := range Examine(t.Context(), parse(t, configuration), m) {
		if len(r.Findings) > 0 {
			t.Errorf("%+v", r)
		}
	}
}

// TestThisMachineAnswers asks the machine of the test.
func TestThisMachineAnswers(t *testing.T) {
	m := ThisMachine(parse(t, configuration))
	taken, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	at := taken.LocalAddr().(*net.UDPAddr).AddrPort()
	if err := m.Listen("udp", at); err == nil {
		t.Error("a taken port seems free")
	}
	if err := m.Listen("tcp", netip.MustParseAddrPort("127.0.0.1:0")); err != nil {
		t.Error(err)
	}
	if _, err := m.ReadFile("/proc/net/udp"); err != nil {
		t.Skip("no Linux: ", err)
	}
	if mtu, err := m.PathMTU(at); err != nil || mtu < 1280 {
		t.Errorf("the path to this machine has an MTU of %d, %v", mtu, err)
	}
	if m.Descriptors() == 0 {
		t.Error("the number of descriptors is unknown")
	}
	if _, known := m.ClockOff(); !known {
		t.Error("the state of the clock is unknown")
	}
}
