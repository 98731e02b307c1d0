//go:build !windows

package cli

// runService reports that this system has no service manager that wants to hear from the process itself.
func runService([]byte) (code int, ran bool) { return 0, false }
