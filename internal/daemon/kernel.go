package daemon

import (
	"errors"

	"tidegate/internal/config"
	"tidegate/internal/kernel"
	"tidegate/internal/kernel/flow"
	"tidegate/internal/kernel/shield"
	"tidegate/proxy"
)

// Bounds of what the kernel knows for us.
const (
	placesOfSources = 1 << 14 // for their rates, of all sockets' filters and of each interface: 128 KiB
	bannedInKernel  = 1 << 20 // prefixes; more are for user space to drop
)

// errTurnedOff is why the kernel does nothing where the configuration says so.
var errTurnedOff = errors.New("off in the configuration")

// NewKernel asks the kernel for what the configuration wants of it, for so many loops. What is not to be had is left out,
// with the reason.
func NewKernel(c *config.Config, loops int) (k proxy.Kernel) {
	k.NoShield, k.NoFlows = errTurnedOff, errTurnedOff
	if c.Kernel.Filter != config.KernelOff {
		k.Interfaces = c.Kernel.XDP
		k.Shield, k.NoShield = shield.New(shield.Options{
			PacketRate: c.Kernel.PacketRate, Burst: c.Kernel.PacketBurst, Sources: placesOfSources, Bans: bannedInKernel,
			Known: c.Limits.Sessions + c.Limits.HalfOpen, Loops: loops,
		})
		k.Plain = k.NoShield != nil && !errors.Is(k.NoShield, kernel.ErrSystem)
	}
	if c.Kernel.Forward != config.KernelOff {
		k.Flows, k.NoFlows = flow.New(flow.Options{Flows: c.Limits.Sessions})
	}
	return k
}

// CloseKernel ends the kernel's help.
func CloseKernel(k *proxy.Kernel) error {
	var errs []error
	if k.Flows != nil {
		errs = append(errs, k.Flows.Close())
	}
	if k.Shield != nil {
		errs = append(errs, k.Shield.Close())
	}
	return errors.Join(errs...)
}
