//go:build !linux

package daemon

import (
	"context"
	"os/signal"
	"syscall"
)

// sigUSR2 is SIGUSR2 of the BSDs and macOS. Windows has no such signal.
const sigUSR2 = syscall.Signal(31)

// catchUpgrades keeps the signal that asks for an upgrade elsewhere from ending the process.
func catchUpgrades() { signal.Ignore(sigUSR2) }

// onSignal does nothing: sockets are handed over on Linux only.
func (u *upgrader) onSignal(context.Context) {}
