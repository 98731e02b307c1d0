package doctor

import (
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
