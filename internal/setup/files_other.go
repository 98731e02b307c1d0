//go:build !unix

package setup

// fileLimit returns 0: this system has no limit of descriptors.
func fileLimit() uint64 { return 0 }
