//go:build unix

package admin

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// automatic returns the sockets that Auto stands for: the user's own, then the system service's.
func automatic() []Address {
	system := "/run/tidegate"
	if runtime.GOOS != "linux" {
		system = "/var/run/tidegate"
	}
	given, _, _ := strings.Cut(os.Getenv("RUNTIME_DIRECTORY"), ":") // by systemd, or by a container image
	session := os.Getenv("XDG_RUNTIME_DIR")
	cache, noCache := os.UserCacheDir()
	switch {
	case given != "":
		return []Address{socketIn(given), socketIn(system)}
	case os.Geteuid() == 0:
		return []Address{socketIn(system)}
	case session != "":
		return []Address{socketIn(filepath.Join(session, "tidegate")), socketIn(system)}
	case noCache == nil:
		return []Address{socketIn(filepath.Join(cache, "tidegate")), socketIn(system)}
	}
	return []Address{socketIn(system)}
}

func socketIn(folder string) Address { return Address("unix:" + filepath.Join(folder, "admin.sock")) }

// claim makes the folder of an automatic socket, for this user alone. A folder that a service manager made stays as it
// is.
func claim(folder string) error {
	if os.Getenv("RUNTIME_DIRECTORY") != "" {
		return nil
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	return os.Chmod(folder, 0o700)
}

// private closes a socket to other users before it gets its name. Systems that cannot do so return an error, which is
// ignored: there the umask decides until Chmod.
func private(_, _ string, conn syscall.RawConn) error {
	return conn.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), 0o600) })
}
