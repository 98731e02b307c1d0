package config

import (
	"strings"
	"testing"
)

func TestFaultyKernel(t *testing.T) {
	c := Default()
	c.Kernel = Kernel{
		Filter: KernelOff, PacketRate: -1, PacketBurst: 0, XDP: []string{"eth0", "eth0", "", "a-name-too-long-for-linux"},
		Forward: KernelAuto,
	}
	_, err := c.Validate(known)
	for _, want := range []string{
		"kernel.packet_rate = -1: want 0 to 10000000",
		"kernel.packet_burst: want 1 to 10000000",
		`kernel.xdp[1] = "eth0": want each interface once`,
		"kernel.xdp[2]: want the name of an interface, 1 to 15 characters, as in: ip link",
		`kernel.xdp[3] = "a-name-too-long-for-linux": want the name of an interface`,
		`want an empty list while kernel.filter = "off", or filter = "auto"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
