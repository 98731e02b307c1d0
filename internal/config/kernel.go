package config

import (
	"fmt"
	"slices"
)

// Kernel says what the operating system's kernel may do for us. Where it cannot, Tidegate does it.
type Kernel struct {
	Filter      KernelUse `toml:"filter"`       // drops in front of each listener's socket
	PacketRate  int       `toml:"packet_rate"`  // of one source a second, by the filters; 0: any
	PacketBurst int       `toml:"packet_burst"` // at once
	XDP         []string  `toml:"xdp"`          // interfaces on which to drop still earlier
	Forward     KernelUse `toml:"forward"`      // datagrams of routes in mode "relay"
}

// KernelUse is whether the kernel is asked to help.
type KernelUse string

// Ways to use the kernel.
const (
	KernelAuto KernelUse = "auto" // where it can
	KernelOff  KernelUse = "off"
)

// Choices lists the values in the configuration.
func (KernelUse) Choices() []string { return words(KernelAuto, KernelOff) }

func defaultKernel() Kernel {
	return Kernel{Filter: KernelAuto, PacketRate: 50_000, PacketBurst: 50_000, XDP: []string{}, Forward: KernelAuto}
}

// longestInterface is how many bytes Linux allows in the name of an interface.
const longestInterface = 15

func (v *validator) kernel() {
	k := v.Kernel
	within(v.report, "kernel.packet_rate", k.PacketRate, 0, 10_000_000)
	within(v.report, "kernel.packet_burst", k.PacketBurst, 1, 10_000_000)
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
		v.fault("kernel.xdp", k.XDP, `no interface where kernel.filter = "off", or filter = "auto"`)
	}
}
