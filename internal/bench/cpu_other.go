//go:build !linux

package bench

import (
	"errors"
	"time"
)

// Processor time and memory are known on Linux only.

func cpuOf(int) (time.Duration, error) { return 0, errors.ErrUnsupported }
func rssOf(int) (int64, error)         { return 0, errors.ErrUnsupported }
func kernelMemory() (int64, error)     { return 0, errors.ErrUnsupported }
func pin(int, int) error               { return errors.ErrUnsupported }
func unpin(int)                        {}
func listening(uint16) bool            { return false }
