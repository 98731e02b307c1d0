package daemon

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"tidegate/proxy"
)

// upgrader replaces the process by one of the program file's present release.
type upgrader struct {
	server *proxy.Server
	log    zerolog.Logger
	grace  func() time.Duration // how long sessions may go on here
	// leave gives up, before the successor goes on, what both cannot have.
	leave   func()
	from    birth  // of this process, for what a successor has to know
	program string // path of the program file

	under sync.Mutex // held while an upgrade is under way
	pipe  io.Closer  // to the successor, which reads its end as ours; nil: there is none
}

// programPath returns the path by which this process was started, which the next release will have: the running file may
// be moved aside, or the path be a link. It is for the start of the process, whose first argument is name.
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
	return running, nil // the caller chose another name for the process
}

func isSameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// wait returns once no upgrade is under way: the process may end before it has told everybody. The successor learns that
// the sessions here have ended.
func (u *upgrader) wait() {
	u.under.Lock()
	defer u.under.Unlock()
	if u.pipe != nil {
		_ = u.pipe.Close()
	}
}
