//go:build !unix

package admin

import "syscall"

// automatic returns the address that Auto stands for.
func automatic() []Address { return []Address{"127.0.0.1:9470"} }

// claim does nothing: Auto is no socket in a folder.
func claim(string) error { return nil }

// private does nothing.
func private(string, string, syscall.RawConn) error { return nil }
