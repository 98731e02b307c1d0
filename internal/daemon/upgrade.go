package daemon

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"

	"tidegate/internal/admin"
	"tidegate/internal/fleet"
	"tidegate/internal/setup"
	"tidegate/proxy"
)

// upgrader replaces the process by one of the program file's current release.
type upgrader struct {
	server  *proxy.Server
	reloads *reloader
	bans    *banSync
	joins   *joinServers
	loops   int
	secrets setup.Secrets
	log     zerolog.Logger
	trace   trace
	from    inheritance // of this process
	program string      // path of the program file; empty: none
	pending func() fleet.Pending
	leave   func() // the fleet
	left    bool   // the fleet, and the successor has joined it
	// leaving has what the successor has to know of the fleet, once this process has begun to leave it; else nil.
	leaving *fleet.Pending

	state   atomic.Pointer[admin.Upgrade] // nil: no upgrade was tried
	running sync.Mutex                    // held during an upgrade
}

// programPath returns the path of the program at the start of the process. The next release will have that path, while
// the running file may be moved, or the path may be a link. The argument name is the process's first argument.
func programPath(name string) (string, error) {
	running, err := os.Executable()
	found, lookErr := exec.LookPath(name)
	if lookErr == nil {
		found, lookErr = filepath.Abs(found)
	}
	switch {
	case lookErr == nil && (err != nil || isSameFile(found, running)):
		return found, nil
	case err != nil:
		return "", err
	}
	return running, nil // the process was started under another name
}

func isSameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// tried returns the state of upgrades.
func (u *upgrader) tried() admin.Upgrade {
	if state := u.state.Load(); state != nil {
		return *state
	}
	return admin.Upgrade{}
}

// wait returns when no upgrade is running: the process must not end during one.
func (u *upgrader) wait() {
	u.running.Lock()
	defer u.running.Unlock()
}
