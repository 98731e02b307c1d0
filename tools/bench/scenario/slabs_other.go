//go:build !linux

package scenario

import "errors"

// kernelMemory fails: the size of the slabs is known on Linux only.
func kernelMemory() (int64, error) { return 0, errors.ErrUnsupported }
