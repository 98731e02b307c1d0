// Package kernel says why something that the operating system's kernel could do for Tidegate is not to be had. What it
// can do has packages of its own: shield drops hostile datagrams there, flow forwards those of relayed sessions.
//
// Nothing needs the kernel's help: whoever asks for it and gets an Unavailable does the work in user space.
package kernel

import (
	"errors"
	"fmt"
	"io/fs"
)

// ErrSystem is the cause of an Unavailable on systems that have no eBPF for us.
var ErrSystem = errors.New("this operating system cannot; Linux can")

// Unavailable tells that the kernel does not do something, and why, for the operator to read.
type Unavailable struct {
	What string // for example "socket filter"
	Err  error  // why; the kernel's own words included
}

// Error implements error.
func (u *Unavailable) Error() string { return u.What + ": " + reason(u.Err) }

// Unwrap returns the cause.
func (u *Unavailable) Unwrap() error { return u.Err }

// reason puts into words what the kernel says with a number.
func reason(err error) string {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return "not permitted: needs root, or the capabilities CAP_BPF and CAP_NET_ADMIN"
	case errors.Is(err, errors.ErrUnsupported):
		return fmt.Sprintf("not in this kernel (%v)", err)
	}
	return err.Error()
}
