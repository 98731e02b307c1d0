package daemon

import (
	"fmt"

	"github.com/coreos/go-systemd/v22/daemon"
)

// manager tells the service manager how things stand, where there is one that wants to know (Type=notify).
var manager serviceManager

type serviceManager struct{}

// tell sends a state. Nothing depends on whether anybody hears it.
func (serviceManager) tell(state string) { _, _ = daemon.SdNotify(false, state) }

func (m serviceManager) ready() { m.tell(daemon.SdNotifyReady) }

func (m serviceManager) stopping() { m.tell(daemon.SdNotifyStopping) }

// reloading comes before ready.
func (m serviceManager) reloading() {
	m.tell(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
}

// succeededBy names the process that is the service from now on.
func (m serviceManager) succeededBy(pid int) { m.tell(fmt.Sprint("MAINPID=", pid)) }
