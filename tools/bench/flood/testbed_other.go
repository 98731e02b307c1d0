//go:build !linux

package flood

import "errors"

// Virtual cables, priorities and drop counts exist on Linux only.

func openVeth() (*testbed, error)    { return nil, errors.ErrUnsupported }
func setNice(int, int) error         { return errors.ErrUnsupported }
func setSessionNice(int) error       { return errors.ErrUnsupported }
func setRealTime(int) error          { return errors.ErrUnsupported }
func setIdleThread(int) (int, error) { return 0, errors.ErrUnsupported }
func interruptThread(int)            {}
func bufferDrops(uint16) uint64      { return 0 }
