//go:build !linux

package daemon

import "context"

// onSignal does nothing: sockets are handed over on Linux only.
func (u *upgrader) onSignal(context.Context) {}
