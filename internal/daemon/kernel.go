package daemon

import (
	"errors"

	"tidegate/internal/config"
	"tidegate/internal/kernel"
	"tidegate/internal/kernel/flow"
	"tidegate/internal/kernel/shield"
	"tidegate/proxy"
)

// Bounds of the kernel's tables.
const (
	rateSources = 1 << 14 // sources with a rate, for the filters of all sockets and for each interface: 128 KiB
	kernelBans  = 1 << 20 // prefixes; user space drops datagrams of further ones
)

// errTurnedOff is the reason for kernel features that the configuration turns off.
var errTurnedOff = errors.New("off in the configuration")

// NewKernel loads the kernel features of a configuration, for a number of loops. It leaves out features that are not
// available, with the reason.
func NewKernel(c *config.Config, loops int) (k proxy.Kernel) {
	k.NoShield, k.NoFlows = errTurnedOff, errTurnedOff
	if c.Kernel.Filter != config.KernelOff {
		k.Interfaces = c.Kernel.XDP
		k.Shield, k.NoShield = shield.New(shield.Options{
			PacketRate: c.Kernel.PacketRate, Burst: max(1, c.Kernel.PacketRate), Sources: rateSources, Bans: kernelBans,
			Known: c.Limits.Sessions + c.Limits.HalfOpen, Loops: loops,
		})
		k.Plain = k.NoShield != nil && !errors.Is(k.NoShield, kernel.ErrSystem)
	}
	if c.Kernel.Forward != config.KernelOff {
		k.Flows, k.NoFlows = flow.New(flow.Options{Flows: c.Limits.Sessions})
	}
	return k
}

// CloseKernel ends the kernel offload.
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
