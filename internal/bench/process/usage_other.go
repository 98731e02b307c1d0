//go:build !linux

package process

import (
	"errors"
	"time"
)

// Processor time and memory are known on Linux only.

// CPUTime fails.
func CPUTime(int) (time.Duration, error) { return 0, errors.ErrUnsupported }

// RSS fails.
func RSS(int) (int64, error) { return 0, errors.ErrUnsupported }

// Pin fails.
func Pin(int, int) error { return errors.ErrUnsupported }

// Unpin does nothing.
func Unpin(int) {}

// listening cannot be known.
func listening(uint16) bool { return false }
