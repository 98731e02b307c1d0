//go:build !linux

package netio

import (
	"errors"
	"fmt"
)

// newNative opens the best backend of the platform.
func newNative(o Options) (Poller, error) {
	if o.Backend == Epoll {
		return nil, fmt.Errorf("epoll: %w", errors.ErrUnsupported)
	}
	return newPortable(o), nil
}

const nativeSharesPorts = false
