package config

import (
	"fmt"
	"slices"
)

// Kernel configures the use of kernel features. Where the kernel lacks them, Tidegate does the work itself.
type Kernel struct {
	Filter KernelUse `toml:"filter"` // drops datagrams before each listener's socket
	// of one source per second, enforced by the filters; 0: unbounded
	PacketRate  int       `toml:"packet_rate" min:"0" max:"10000000"`
	PacketBurst int       `toml:"packet_burst" min:"1" max:"10000000"` // at once
	XDP         []string  `toml:"xdp"`                                 // interfaces that drop even earlier
	Forward     KernelUse `toml:"forward"`                             // forwards datagrams of routes in mode "relay"
}

// KernelUse says whether a kernel feature is used.
type KernelUse string

// Uses.
const (
	KernelAuto KernelUse = "auto" // if available
	KernelOff  KernelUse = "off"
)

// Choices lists the words of the configuration.
func (KernelUse) Choices() []string { return choices(KernelAuto, KernelOff) }

func defaultKernel() Kernel {
	return Kernel{Filter: KernelAuto, PacketRate: 50_000, PacketBurst: 50_000, XDP: []string{}, Forward: KernelAuto}
}

// longestInterface is the length in bytes of the longest name of an interface in Linux.
const longestInterface = 15

func (v *validator) kernel() {
	k := v.Kernel
	for i, name := range k.XDP {
		path := item("kernel.xdp", i)
		switch {
		case name == "" || len(name) > longestInterface:
			v.fault(path, name, fmt.Sprintf("the name of an interface, 1 to %d characters, as in: ip link", longestInterface))
		case slices.Contains(k.XDP[:i], name):
			v.fault(path, name, "each interface once")
		}
	}
	if len(k.XDP) > 0 && k.Filter == KernelOff {
		v.fault("kernel.xdp", k.XDP, `an empty list while kernel.filter = "off", or filter = "auto"`)
	}
}
