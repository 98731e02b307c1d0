// Package doctor finds the faults of a machine for a configuration: one function for each check, and the list of
// all of them in Checks. A Machine answers the questions of the checks, so tests make machines up.
package doctor

import (
	"context"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"

	"tidegate/internal/config"
	"tidegate/internal/netio"
	"tidegate/internal/setup"
)

// Severity is the importance of a finding.
type Severity string

// Severities.
const (
	Problem Severity = "problem" // players notice it, or will
	Advice  Severity = "advice"  // Tidegate works without it, but worse
)

// Finding is a fault of the machine, or of its surroundings.
type Finding struct {
	Severity Severity `json:"severity"`
	Text     string   `json:"text"`
	Remedy   string   `json:"remedy"`
}

// Result is the result of one check.
type Result struct {
	Check    string    `json:"check"`
	Detail   string    `json:"detail"` // the facts found, in one line
	Findings []Finding `json:"findings"`
}

// Check is a check of the machine.
type Check struct {
	Name string
	run  func(*examination) (detail string)
}

// Checks are all checks, in the order of the report.
var Checks = []Check{
	{"admin", (*examination).admin},
	{"descriptors", (*examination).descriptors},
	{"ports", (*examination).ports},
	{"buffers", (*examination).buffers},
	{"tracking", (*examination).tracking},
	{"kernel", (*examination).kernel},
	{"modules", (*examination).modules},
	{"sources", (*examination).sources},
	{"listeners", (*examination).listeners},
	{"joins", (*examination).joins},
	{"names", (*examination).names},
	{"mtu", (*examination).mtu},
	{"servers", (*examination).servers},
	{"drops", (*examination).drops},
	{"clock", (*examination).clock},
}

// Machine answers questions about the machine and its surroundings.
type Machine struct {
	// ReadFile reads a file below /proc. On other systems than Linux it fails.
	ReadFile func(name string) ([]byte, error)
	// Descriptors returns the number of descriptors that this process may have. 0 means unknown.
	Descriptors func() uint64
	// Shortfalls describes the receive buffers that the kernel does not grant, with their remedies.
	Shortfalls func() []Finding
	// Kernel returns why the kernel drops and forwards no datagrams, or nil.
	Kernel func() (filter, forward error)
	// Interpreted returns why modules are interpreted, or "".
	Interpreted func() string
	// Sources returns why the sources of upstreams cannot be used.
	Sources func() error
	// Listen tries to listen at an address, and ends that at once.
	Listen func(network string, addr netip.AddrPort) error
	// Addresses returns the addresses of the machine.
	Addresses func() ([]netip.Addr, error)
	// Lookup asks a DNS server, or the system's if it is not valid, for the addresses of a host or a service.
	Lookup func(ctx context.Context, resolver netip.AddrPort, place config.Discover) ([]string, error)
	// Cluster asks the API server of Kubernetes for the servers of an upstream.
	Cluster func(ctx context.Context, u *config.Upstream) error
	// PathMTU returns the largest IP packet on the way to an address, as far as this machine knows.
	PathMTU func(addr netip.AddrPort) (int, error)
	// Ask asks the game servers of the configuration whether they answer.
	Ask func(ctx context.Context) []Answer
	// Running returns the configuration of the proxy at the admin address. It returns "" without a proxy.
	Running func(ctx context.Context) (toml string, err error)
	// ClockOff reports whether the system's clock follows no time server.
	ClockOff func() (off, known bool)
}

// Answer is a game server's answer.
type Answer struct {
	Upstream, Server string
	Asked            bool
	Fault            string // it has not answered, or refuses players; empty: none
}

// examination is one run of all checks.
type examination struct {
	ctx      context.Context
	machine  Machine
	config   *config.Config
	running  bool // a proxy with this configuration's admin address answers
	findings []Finding
}

// Examine runs all checks.
func Examine(ctx context.Context, c *config.Config, m Machine) (results []Result) {
	e := &examination{ctx: ctx, machine: m, config: c}
	for _, check := range Checks {
		e.findings = []Finding{}
		detail := check.run(e)
		results = append(results, Result{check.Name, detail, e.findings})
	}
	return results
}

func (e *examination) problem(text, remedy string) {
	e.findings = append(e.findings, Finding{Problem, text, remedy})
}

func (e *examination) advise(text, remedy string) {
	e.findings = append(e.findings, Finding{Advice, text, remedy})
}

// unknown is the detail of a check that this system does not support.
const unknown = "not checked on this system"

// ThisMachine returns the machine that the process runs on. The caller adds the answers that need the running proxy,
// the kernel features, or questions to servers.
func ThisMachine(c *config.Config) Machine {
	return Machine{
		ReadFile: os.ReadFile, Descriptors: setup.FileLimit, Listen: tryListen, Lookup: Lookup, PathMTU: pathMTU,
		ClockOff: clockOff, Addresses: netio.OwnAddresses, Interpreted: func() string { return interpreted(c) },
		Sources: func() error { return setup.CheckMachine(c) },
		Shortfalls: func() (all []Finding) {
			for _, s := range setup.BufferShortfalls(c, netio.GrantedBuffer) {
				text := s.Key + " asks for " + s.Asked.String() + ", but the kernel gives only " + s.Given.String()
				all = append(all, Finding{Advice, text, s.Remedy()})
			}
			return all
		},
	}
}

// interpreted asks systemd about the unit of the packages.
func interpreted(c *config.Config) string {
	unit, _ := exec.Command("systemctl", "show", "-p", "MemoryDenyWriteExecute", "tidegate").Output()
	line := strings.TrimSpace(string(unit))
	if hasModules := func(r config.Route) bool { return len(r.Modules) > 0 }; strings.HasSuffix(line, "=yes") &&
		slices.ContainsFunc(c.Routes, hasModules) {
		return "the unit tidegate has " + line
	}
	return ""
}

// tryListen listens at an address, and stops at once.
func tryListen(network string, addr netip.AddrPort) error {
	if network == "tcp" {
		l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(addr))
		if err != nil {
			return err
		}
		return l.Close()
	}
	l, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(addr))
	if err != nil {
		return err
	}
	return l.Close()
}
