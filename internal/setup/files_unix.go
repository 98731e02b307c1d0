//go:build unix

package setup

import "syscall"

// FileLimit returns the number of descriptors that this process may open; 0 means that it is unknown. Go has raised
// the soft limit to the hard one already.
func FileLimit() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return uint64(limit.Max)
}
