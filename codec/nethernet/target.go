package nethernet

import (
	"errors"
	"fmt"
	"net/netip"
)

// Errors of Target.
var (
	ErrNoCandidate = errors.New("the answer has no UDP candidate that can be used")
	ErrThirdParty  = errors.New("the answer names an address that is not the server's")
)

// Target returns the address to which a server's answer sends its client. It is always an address of the server: a
// hostile answer must not aim the edge's datagrams at others. If the server stands behind NAT or in a container, it
// knows only its inner address: with anyAddress, the port of the best candidate counts, and its address does not.
func (d *Description) Target(server netip.Addr, anyAddress bool) (netip.AddrPort, error) {
	server = server.Unmap()
	var named netip.AddrPort // the first address that is not the server's
	var port uint16          // of the best candidate; one of the server's family is better than others
	ofFamily := false
	for _, c := range d.Candidates {
		if c.Component != 1 || !c.UDP || c.Port == 0 {
			continue
		}
		addr := c.Address.Addr()
		if addr == server && addr.IsValid() {
			return c.Address, nil
		}
		if !named.IsValid() {
			named = c.Address
		}
		if fits := addr.IsValid() && addr.Is4() == server.Is4(); port == 0 || fits && !ofFamily {
			port, ofFamily = c.Port, fits
		}
	}
	switch {
	case port == 0:
		return netip.AddrPort{}, ErrNoCandidate
	case anyAddress:
		return netip.AddrPortFrom(server, port), nil
	case !named.IsValid():
		return netip.AddrPort{}, ErrNoCandidate
	}
	return netip.AddrPort{}, fmt.Errorf("%w: %s", ErrThirdParty, named)
}
