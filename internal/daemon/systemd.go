package daemon

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// manager tells the service manager how things stand, where there is one that wants to know (Type=notify).
var manager serviceManager

type serviceManager struct {
	left atomic.Bool // another process is the service now
}

// tell sends a state, until another process is the service. Errors do not matter: nothing depends on it.
func (m *serviceManager) tell(state string) {
	if !m.left.Load() {
		_, _ = daemon.SdNotify(false, state)
	}
}

func (m *serviceManager) ready() { m.tell(daemon.SdNotifyReady) }

func (m *serviceManager) stopping() { m.tell(daemon.SdNotifyStopping) }

// reloading comes before ready.
func (m *serviceManager) reloading() {
	m.tell(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
}

// succeededBy names the process that is the service from now on. The watchdog starts anew for it.
func (m *serviceManager) succeededBy(pid int) {
	m.tell(fmt.Sprint("MAINPID=", pid, "\n", daemon.SdNotifyWatchdog))
	m.left.Store(true)
}

// feedWatchdog tells the service manager that the process works, until ctx is done, whenever alive returns nil. It does
// nothing where the manager has no watchdog for this process. A successor has the watchdog of its predecessor.
func (m *serviceManager) feedWatchdog(ctx context.Context, successor bool, alive func(context.Context) error) {
	interval := watchdogInterval(os.Getenv, os.Getpid(), successor)
	if interval <= 0 {
		return
	}
	ticks := time.NewTicker(interval / 2)
	defer ticks.Stop()
	for {
		asking, done := context.WithTimeout(ctx, interval/4)
		err := alive(asking)
		done()
		if err == nil {
			m.tell(daemon.SdNotifyWatchdog)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// watchdogInterval returns how often systemd wants to hear of a process; 0 if it does not. The environment names the process
// that was started first, so a successor ignores that name.
func watchdogInterval(env func(string) string, pid int, successor bool) time.Duration {
	µs, err := strconv.ParseUint(env("WATCHDOG_USEC"), 10, 40)
	if err != nil {
		return 0
	}
	if owner := env("WATCHDOG_PID"); owner != "" && owner != strconv.Itoa(pid) && !successor {
		return 0
	}
	return time.Duration(µs) * time.Microsecond
}
