package netlab

import (
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
)

// Tun creates a TUN device in the namespace, gives it an address with its prefix length and turns it on. A read of the
// file returns the next IP packet that the namespace sends. A write delivers one to it. It skips the test where the
// kernel has no TUN devices.
func (n *Namespace) Tun(device, address string) *os.File {
	n.t.Helper()
	control, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		n.t.Skipf("TUN devices are not available: %v", err)
	}
	_ = control.Close()
	attributes := netlink.NewLinkAttrs()
	attributes.Name = device
	tun := &netlink.Tuntap{LinkAttrs: attributes, Mode: netlink.TUNTAP_MODE_TUN, NonPersist: true, Queues: 1,
		Flags: netlink.TUNTAP_NO_PI}
	n.run("create "+device, func() error { return netlink.LinkAdd(tun) })
	n.Address(device, address)
	n.up(device)
	return tun.Fds[0]
}

// Enter returns the start of a command line that runs the rest in the namespace.
func (n *Namespace) Enter() []string {
	return []string{"nsenter", fmt.Sprintf("--net=/proc/%d/fd/%d", os.Getpid(), int(n.handle))}
}
