//go:build !linux

package shield

import (
	"net/netip"
	"syscall"

	"tidegate/internal/kernel"
)

// Shield does not exist on this system.
type Shield struct{}

// New returns an error: this system has no shield.
func New(Options) (*Shield, error) {
	return nil, &kernel.Unavailable{What: "eBPF", Err: kernel.ErrSystem}
}

// Guard is for Linux.
func (*Shield) Guard(syscall.Conn, FirstBytes, *Gate) error { return kernel.ErrSystem }

// Load is for Linux.
func (*Shield) Load(FirstBytes, *Gate) error { return kernel.ErrSystem }

// Gate does not exist on this system.
type Gate struct{}

// Gate returns nil.
func (*Shield) Gate(int) *Gate { return nil }

// Known returns 0.
func (*Shield) Known() int { return 0 }

// Drained does nothing.
func (*Gate) Drained() {}

// Drops returns 0.
func (*Gate) Drops() uint64 { return 0 }

// Know does nothing.
func (*Gate) Know(netip.AddrPort, uint16) {}

// Forget does nothing.
func (*Gate) Forget(netip.AddrPort, uint16) {}

// GuardClassic is for Linux.
func GuardClassic(syscall.Conn, FirstBytes, *ClientBitmap) (filters bool, err error) {
	return false, kernel.ErrSystem
}

// Unguard does nothing.
func Unguard(syscall.Conn) error { return nil }

// GuardInterface is for Linux.
func (*Shield) GuardInterface(string, []Listener) (Mode, error) { return 0, kernel.ErrSystem }

// LeaveInterface does nothing.
func (*Shield) LeaveInterface(string) error { return nil }

// SetBans is for Linux.
func (*Shield) SetBans([]netip.Prefix) (left int, err error) { return 0, kernel.ErrSystem }

// Counters returns zeros.
func (*Shield) Counters() (Counters, error) { return Counters{}, nil }

// Close does nothing.
func (*Shield) Close() error { return nil }
