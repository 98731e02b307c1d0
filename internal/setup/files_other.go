//go:build !unix

package setup

// FileLimit returns 0: this system has no limit of descriptors.
func FileLimit() uint64 { return 0 }
