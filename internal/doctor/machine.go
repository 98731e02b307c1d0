package doctor

import (
	"net"
	"net/netip"
	"os"

	"tidegate/internal/config"
	"tidegate/internal/netio"
	"tidegate/internal/setup"
)

// ThisMachine returns the machine that the process runs on. The caller adds the answers that need the running proxy,
// the kernel features, or questions to servers.
func ThisMachine(c *config.Config) Machine {
	return Machine{
		ReadFile: os.ReadFile, Descriptors: setup.FileLimit, Listen: tryListen, Lookup: Lookup, PathMTU: pathMTU,
		ClockOff: clockOff, Addresses: netio.OwnAddresses,
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
