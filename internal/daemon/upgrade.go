package daemon

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"tidegate/internal/admin"
	"tidegate/proxy"
)

// upgrader replaces the process by one of the program file's current release.
type upgrader struct {
	server *proxy.Server
	log    zerolog.Logger
	grace  func() time.Duration // how long sessions may stay in this process
	// leave releases, before the successor continues, the resources that only one process can have.
	leave   func()
	from    inheritance // of this process; the successor needs a part of it
	program string      // path of the program file

	state   atomic.Pointer[admin.Upgrade] // nil: no upgrade was tried
	running sync.Mutex                    // held during an upgrade
	pipe    io.Closer                     // to the successor, for which its end is the end of this process; nil: none
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

// wait returns when no upgrade is running: the process must not end during one. It then tells the successor that all
// sessions of this process have ended.
func (u *upgrader) wait() {
	u.running.Lock()
	defer u.running.Unlock()
	if u.pipe != nil {
		_ = u.pipe.Close()
	}
}
