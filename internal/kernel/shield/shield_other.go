//go:build !linux

package shield

import (
	"net/netip"
	"syscall"

	"tidegate/internal/kernel"
)

// Shield is never made on this system.
type Shield struct{}

// New tells that there is no shield on this system.
func New(Options) (*Shield, error) {
	return nil, &kernel.Unavailable{What: "eBPF", Err: kernel.ErrSystem}
}

// Guard is for Linux.
func (*Shield) Guard(syscall.Conn, FirstBytes, *Gate) error { return kernel.ErrSystem }

// Gate is never made on this system.
type Gate struct{}

// Gate is for Linux.
func (*Shield) Gate(int) *Gate { return nil }

// Known is nobody.
func (*Shield) Known() int { return 0 }

// Keep does nothing.
func (*Gate) Keep() {}

// Know does nothing.
func (*Gate) Know(netip.AddrPort, uint16) {}

// Forget does nothing.
func (*Gate) Forget(netip.AddrPort, uint16) {}

// GuardPlainly is for Linux.
func GuardPlainly(syscall.Conn, FirstBytes, *Sieve) error { return kernel.ErrSystem }

// Unguard has nothing to take away.
func Unguard(syscall.Conn) error { return nil }

// GuardInterface is for Linux.
func (*Shield) GuardInterface(string, []Listener) (Mode, error) { return 0, kernel.ErrSystem }

// LeaveInterface has nothing to leave.
func (*Shield) LeaveInterface(string) error { return nil }

// SetBans is for Linux.
func (*Shield) SetBans([]netip.Prefix) (left int, err error) { return 0, kernel.ErrSystem }

// Counters are zero.
func (*Shield) Counters() (Counters, error) { return Counters{}, nil }

// Close does nothing.
func (*Shield) Close() error { return nil }
