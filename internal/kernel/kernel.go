// Package kernel holds the error for work that the operating system's kernel cannot take over. Its subpackages do that
// work: shield drops hostile datagrams in the kernel, flow forwards datagrams of relayed sessions there.
//
// Nothing depends on kernel offload. A caller that gets an Unavailable does the work in user space.
package kernel

import (
	"errors"
	"fmt"
	"io/fs"
)

// ErrSystem is the cause of an Unavailable on systems without eBPF.
var ErrSystem = errors.New("not on this operating system; only on Linux")

// Unavailable is the error for a kernel feature that cannot be used. Its text is for operators.
type Unavailable struct {
	What string // the feature, for example "socket filter"
	Err  error  // the cause, including the kernel's own error
}

// Error returns the feature and the cause.
func (u *Unavailable) Error() string { return u.What + ": " + reason(u.Err) }

// Unwrap returns the cause.
func (u *Unavailable) Unwrap() error { return u.Err }

// reason turns the kernel's error numbers into advice.
func reason(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "not permitted: needs root, or the capabilities CAP_BPF and CAP_NET_ADMIN"
	case errors.Is(err, errors.ErrUnsupported):
		return fmt.Sprintf("not in this kernel (%v)", err)
	}
	return err.Error()
}
