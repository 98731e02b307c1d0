package config

import (
	"os"
	"runtime"
)

// Admin is the address at which operators and their programs reach a running Tidegate.
type Admin struct {
	Listen AdminAddress `toml:"listen" default:"auto"`
	Token  Secret       `toml:"token"` // every request must carry it; empty: requests need no token
}

// AdminAddress is ip:port, "unix:" and the path of a socket, or one of the words below.
type AdminAddress string

// Words in place of an address.
const (
	AdminAuto AdminAddress = "auto" // a Unix socket that only this user can reach, where the system has such sockets
	AdminOff  AdminAddress = "off"  // no admin server
)

// Secret is a text that is never shown.
type Secret string

// String hides the text.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

const (
	minToken   = 16  // characters, against guessing over a network
	maxToken   = 200 // characters
	socketPath = 100 // bytes that every system allows in the path of a Unix socket
)

// openToAll reports whether every user of the machine can read a file. Windows does not tell.
func openToAll(path string) bool {
	info, err := os.Stat(path)
	return err == nil && runtime.GOOS != "windows" && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0
}

// isToken reports whether a text fits into a header and is long enough.
func isToken(text string) bool {
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return len(text) >= minToken && len(text) <= maxToken
}
