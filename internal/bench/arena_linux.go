package bench

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// The near end of the cable is here, and the far end in a namespace of players and attackers. 198.18.0.0/15 is for
// benchmarks (RFC 2544), so that no answer to a forged address leaves the machine.
const (
	nearDevice, farDevice = "tgflood0", "tgflood1"
	nearAddress           = "198.18.0.1/30"
	farAddress            = "198.18.0.2/30"
	benchNetwork          = "198.18.0.0/15"
	playersNetwork        = "198.18.64.0/18" // addresses that the far end takes for its own
)

// openCable joins a namespace to this one by a virtual cable. What comes by it is received by a worker of the kernel,
// which can be put on a core: as a network card with one queue would have it. It needs root.
func openCable() (*arena, error) {
	far, err := newNamespace()
	if err != nil {
		return nil, fmt.Errorf("namespace: %w", err)
	}
	a := &arena{
		name: "veth", server: netip.MustParsePrefix(nearAddress).Addr(), device: nearDevice,
		players: [2]byte{198, 18}, sources: [2]byte{198, 19},
		within: func(f func()) { onThread(func() { enter(far, f) }) },
		close: func() {
			if link, err := netlink.LinkByName(nearDevice); err == nil {
				_ = netlink.LinkDel(link) // it goes with the namespace at worst
			}
			_ = far.Close()
		},
	}
	if err := lay(far); err != nil {
		_ = far.Close() // the cable that may be there is another run's
		return nil, err
	}
	if err := a.plug(); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

func newNamespace() (ns netns.NsHandle, err error) {
	onThread(func() { ns, err = netns.New() })
	return ns, err
}

func enter(ns netns.NsHandle, f func()) {
	if err := netns.Set(ns); err != nil {
		panic(err) // it is ours, and open
	}
	f()
}

// lay makes the cable, if there is none.
func lay(far netns.NsHandle) error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = nearDevice
	pair := &netlink.Veth{LinkAttrs: attributes, PeerName: farDevice, PeerNamespace: netlink.NsFd(far)}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("cable: %w", err)
	}
	return nil
}

// plug gives the cable's ends their addresses and starts the worker.
func (a *arena) plug() error {
	var err error
	a.within(func() {
		lo, _ := netlink.LinkByName("lo")
		err = errors.Join(netlink.LinkSetUp(lo), equip(farDevice, farAddress),
			// Any address of the players' network is local there.
			netlink.RouteAdd(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: network(playersNetwork), Type: unix.RTN_LOCAL,
				Scope: unix.RT_SCOPE_HOST, Table: unix.RT_TABLE_LOCAL}),
			// Otherwise UDP is received by whoever sends it, and only XDP has it go through the worker.
			setOffload(farDevice, unix.ETHTOOL_STSO, 0))
	})
	if err = errors.Join(err, equip(nearDevice, nearAddress)); err != nil {
		return err
	}
	near, err := netlink.LinkByName(nearDevice)
	if err != nil {
		return err
	}
	a.forger = func(f *flood) (gun, error) { return newVolley(f, near.Attrs().HardwareAddr) }
	gateway := netip.MustParsePrefix(farAddress).Addr()
	if err := netlink.RouteAdd(&netlink.Route{Dst: network(benchNetwork), Gw: gateway.AsSlice()}); err != nil {
		return fmt.Errorf("route: %w", err)
	}
	if a.line, err = a.lineDrops(); err != nil {
		return err
	}
	return a.employ()
}

// lineDrops makes what counts the packets that found no room on the cable: its ring has 256 places, and whoever sends
// faster than the worker receives loses them, whatever the subject does.
func (a *arena) lineDrops() (func() uint64, error) {
	var h *netlink.Handle
	var err error
	a.within(func() { h, err = netlink.NewHandle() })
	return func() uint64 {
		link, err := h.LinkByName(farDevice)
		if err != nil {
			return 0
		}
		return link.Attrs().Statistics.TxDropped
	}, err
}

func network(cidr string) *net.IPNet {
	_, n, _ := net.ParseCIDR(cidr) // constants
	return n
}

func equip(device, address string) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	parsed, err := netlink.ParseAddr(address)
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(link, parsed); err != nil {
		return fmt.Errorf("address %s: %w", address, err)
	}
	return netlink.LinkSetUp(link)
}

// employ has a worker of its own receive for the near device. Only a device with GRO has one.
func (a *arena) employ() error {
	if err := setOffload(nearDevice, unix.ETHTOOL_SGRO, 1); err != nil {
		return fmt.Errorf("GRO: %w", err)
	}
	if err := os.WriteFile("/sys/class/net/"+nearDevice+"/threaded", []byte("1"), 0); err != nil {
		return fmt.Errorf("threaded NAPI: %w", err)
	}
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return err
	}
	for _, name := range names {
		if text, err := os.ReadFile(name); err == nil && strings.HasPrefix(string(text), "napi/"+nearDevice) {
			a.worker, err = strconv.Atoi(filepath.Base(filepath.Dir(name)))
			return err
		}
	}
	return errors.New("threaded NAPI: there is no such thread")
}

// setOffload turns an offload of a device on or off, as `ethtool -K` does.
func setOffload(device string, command, value uint32) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	argument := [2]uint32{command, value}
	request := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte // struct ifreq is longer
	}{data: unsafe.Pointer(&argument)}
	copy(request.name[:], device)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return errno
	}
	return nil
}

// hurry lets a process or thread run before others, or after them.
func hurry(id, nice int) error { return unix.Setpriority(unix.PRIO_PROCESS, id, nice) }

// hurrySession is hurry for all that was started from this terminal: by default the kernel shares cores out among sessions,
// and by niceness only within each.
func hurrySession(nice int) error {
	return os.WriteFile("/proc/self/autogroup", []byte(strconv.Itoa(nice)), 0)
}

// interrupt lets a thread of the kernel's go before every program, as what it does in a network card's interrupt would.
func interrupt(pid int) error {
	return unix.SchedSetAttr(pid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
}

// yieldThread keeps the calling thread on a core, on which it runs when nobody else there wants to, and returns its number.
func yieldThread(core int) (int, error) {
	var set unix.CPUSet
	set.Set(core)
	return unix.Gettid(), errors.Join(unix.SchedSetaffinity(0, &set),
		unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0))
}

// disturb sends a thread a signal that ends a system call, and does nothing else: Go's scheduler has it for that.
func disturb(thread int) { _ = unix.Tgkill(os.Getpid(), thread, unix.SIGURG) }

// overflows is how many datagrams for sockets of a port have not come to their buffers so far, for want of room or because
// of a filter.
func overflows(port uint16) (n uint64) {
	text, _ := os.ReadFile(udpSockets)
	local := fmt.Sprintf(":%04X", port)
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 12 && strings.HasSuffix(fields[1], local) {
			drops, _ := strconv.ParseUint(fields[12], 10, 64) // the kernel's own
			n += drops
		}
	}
	return n
}
