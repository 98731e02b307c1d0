package daemon

import (
	"os"
	"os/signal"
	"syscall"
)

// hangups has SIGHUP, which asks for a reload, from CatchSignals on. While the process starts, one signal waits here; while
// it drains, they are dropped.
var hangups = make(chan os.Signal, 1)

// CatchSignals keeps signals with a meaning of their own from ending the process, which is their default. SIGPIPE is
// ignored: the reader of the log may end at any time.
func CatchSignals() {
	signal.Ignore(syscall.SIGPIPE)
	signal.Notify(hangups, syscall.SIGHUP)
	catchUpgrades()
}
