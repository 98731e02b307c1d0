//go:build unix

package freeport

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// claim claims a block for this process until it ends, and reports whether no other process has it.
func claim(block int) bool {
	path := filepath.Join(os.TempDir(), fmt.Sprint("tidegate-test-ports-", block))
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0) // without a finalizer; perhaps another user's
	if err != nil {
		fd, err = syscall.Open(path, syscall.O_CREAT|syscall.O_RDONLY|syscall.O_CLOEXEC, 0o644)
	}
	if err != nil {
		return false
	}
	if syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		_ = syscall.Close(fd)
		return false
	}
	return true
}
