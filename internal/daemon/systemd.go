package daemon

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"tidegate/internal/pause"

	"github.com/coreos/go-systemd/v22/daemon"
)

// manager notifies the service manager, if there is one with Type=notify.
var manager serviceManager

type serviceManager struct {
	left atomic.Bool // another process is the service now
}

// notify sends a state, unless another process is the service. It ignores errors: nothing depends on the message.
func (m *serviceManager) notify(state string) {
	if !m.left.Load() {
		_, _ = daemon.SdNotify(false, state)
	}
}

func (m *serviceManager) ready() { m.notify(daemon.SdNotifyReady) }

func (m *serviceManager) stopping() { m.notify(daemon.SdNotifyStopping) }

// reloading is followed by ready.
func (m *serviceManager) reloading() {
	m.notify(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
}

// succeededBy names the process that is the service from now on. The watchdog restarts for it.
func (m *serviceManager) succeededBy(pid int) {
	m.notify(fmt.Sprint("MAINPID=", pid, "\n", daemon.SdNotifyWatchdog))
	m.left.Store(true)
}

// feedWatchdog notifies the watchdog until ctx is done, whenever alive returns nil. It does nothing without a watchdog
// for this process. A successor has the watchdog of its predecessor.
func (m *serviceManager) feedWatchdog(ctx context.Context, successor bool, alive func(context.Context) error) {
	interval := watchdogInterval(os.Getenv, os.Getpid(), successor)
	if interval <= 0 {
		return
	}
	for range pause.Every(ctx, interval/2) {
		asking, done := context.WithTimeout(ctx, interval/4)
		err := alive(asking)
		done()
		if err == nil {
			m.notify(daemon.SdNotifyWatchdog)
		}
	}
}

// watchdogInterval returns the interval of systemd's watchdog; 0 without one. The environment names the first process
// of the service, so a successor ignores that name.
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
