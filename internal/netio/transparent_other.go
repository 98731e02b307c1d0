//go:build !linux

package netio

import (
	"errors"
	"fmt"
)

// CheckTransparent reports why sockets cannot have the address of somebody else (SocketOptions.TransparentSource), or nil.
func CheckTransparent() error {
	return fmt.Errorf("the address of somebody else, which only Linux has: %w", errors.ErrUnsupported)
}
