//go:build !linux

package flow

import "tidegate/internal/kernel"

// Table does not exist on this system.
type Table struct{}

// New returns an error: this system cannot forward in the kernel.
func New(Options) (*Table, error) {
	return nil, &kernel.Unavailable{What: "forwarding in the kernel", Err: kernel.ErrSystem}
}

// Add is for Linux.
func (*Table) Add(Flow, Rate) error { return kernel.ErrSystem }

// Delete finds nothing.
func (*Table) Delete(Flow) (last Traffic, ok bool) { return Traffic{}, false }

// Usage finds nothing.
func (*Table) Usage(Flow) (u Usage, ok bool) { return Usage{}, false }

// Totals returns zeros.
func (*Table) Totals() (Traffic, error) { return Traffic{}, nil }

// Changes returns 0.
func (*Table) Changes() uint64 { return 0 }

// Close does nothing.
func (*Table) Close() error { return nil }
