//go:build !linux

package daemon

import (
	"context"
	"os/signal"
	"syscall"

	"tidegate/internal/admin"
	"tidegate/proxy"
	"tidegate/proxy/relay"
)

// sigUSR2 is SIGUSR2 of the BSDs and macOS. Windows has no such signal.
const sigUSR2 = syscall.Signal(31)

// catchUpgrades ignores the signal for upgrades, which would end the process.
func catchUpgrades() { signal.Ignore(sigUSR2) }

// request returns an error: sockets can be handed over on Linux only.
func (u *upgrader) request() error { return admin.ErrNoUpgrade }

// onSignal does nothing: sockets can be handed over on Linux only.
func (u *upgrader) onSignal(context.Context) {}

// predecessor does not exist: sockets can be handed over on Linux only.
type predecessor struct{ handover }

func inherit() (inheritance, error) { return activated() }

func (*predecessor) takeOver(*proxy.Server, trace) (all relay.Imported, err error) {
	return all, admin.ErrNoUpgrade
}

func (*predecessor) refuse(error) {}

func (*predecessor) awaitEnd(func(), func([]byte)) {}
