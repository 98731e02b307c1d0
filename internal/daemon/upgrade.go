package daemon

import (
	"io"
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
	leave func()
	from  birth // of this process, for what a successor has to know

	under sync.Mutex // held while an upgrade is under way
	pipe  io.Closer  // to the successor, which reads its end as ours; nil: there is none
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
