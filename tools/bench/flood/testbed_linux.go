package flood

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

	"tidegate/tools/bench/process"
)

// The near end of the cable is in this namespace, the far end in the namespace of the clients and the flood. The
// network 198.18.0.0/15 is reserved for benchmarks (RFC 2544), so no answer to a forged address leaves the machine.
const (
	nearDevice, farDevice = "tgflood0", "tgflood1"
	nearAddress           = "198.18.0.1/30"
	farAddress            = "198.18.0.2/30"
	benchNetwork          = "198.18.0.0/15"
	clientsNetwork        = "198.18.128.0/17" // local addresses of the far end
)

// openVeth connects a new namespace to this one by a virtual cable. A kernel thread receives from the cable and can be
// pinned to a core, as for a network card with one queue. openVeth needs root.
func openVeth() (*testbed, error) {
	far, err := newNamespace()
	if err != nil {
		return nil, fmt.Errorf("namespace: %w", err)
	}
	t := &testbed{
		name: "veth", server: netip.MustParsePrefix(nearAddress).Addr(), device: nearDevice,
		clients: [2]byte{198, 18}, sources: [2]byte{198, 19},
		inNamespace: func(f func()) { onThread(func() { enter(far, f) }) },
		close: func() {
			if link, err := netlink.LinkByName(nearDevice); err == nil {
				_ = netlink.LinkDel(link) // at worst the link ends with the namespace
			}
			_ = far.Close()
		},
	}
	if err := createVeth(far); err != nil {
		_ = far.Close() // an existing cable belongs to another run
		return nil, err
	}
	if err := t.bringUp(); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func newNamespace() (ns netns.NsHandle, err error) {
	onThread(func() { ns, err = netns.New() })
	return ns, err
}

func enter(ns netns.NsHandle, f func()) {
	if err := netns.Set(ns); err != nil {
		panic(err) // never: the namespace is our own and open
	}
	f()
}

// createVeth makes the cable. It fails if there is one.
func createVeth(far netns.NsHandle) error {
	attributes := netlink.NewLinkAttrs()
	attributes.Name = nearDevice
	pair := &netlink.Veth{LinkAttrs: attributes, PeerName: farDevice, PeerNamespace: netlink.NsFd(far)}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("cable: %w", err)
	}
	return nil
}

// bringUp sets the addresses and routes of the cable's ends and starts the receiving thread.
func (t *testbed) bringUp() error {
	var err error
	t.inNamespace(func() {
		lo, _ := netlink.LinkByName("lo")
		err = errors.Join(netlink.LinkSetUp(lo), setAddress(farDevice, farAddress),
			// All addresses of the clients' network are local there.
			netlink.RouteAdd(&netlink.Route{LinkIndex: lo.Attrs().Index, Dst: network(clientsNetwork), Type: unix.RTN_LOCAL,
				Scope: unix.RT_SCOPE_HOST, Table: unix.RT_TABLE_LOCAL}),
			// With this offload the sending thread itself would receive UDP; only XDP would use the kernel thread.
			setOffload(farDevice, unix.ETHTOOL_STSO, 0))
	})
	if err = errors.Join(err, setAddress(nearDevice, nearAddress)); err != nil {
		return err
	}
	near, err := netlink.LinkByName(nearDevice)
	if err != nil {
		return err
	}
	t.newSender = func(p *plan) (sender, error) { return newXDPSender(p, near.Attrs().HardwareAddr) }
	gateway := netip.MustParsePrefix(farAddress).Addr()
	if err := netlink.RouteAdd(&netlink.Route{Dst: network(benchNetwork), Gw: gateway.AsSlice()}); err != nil {
		return fmt.Errorf("route: %w", err)
	}
	if t.lineDrops, err = t.openLineDrops(); err != nil {
		return err
	}
	return t.enableThreadedNAPI()
}

// openLineDrops returns a function that counts the packets that found no room on the cable. The cable's ring has 256
// places. A sender that is faster than the kernel thread loses packets there, independently of the subject.
func (t *testbed) openLineDrops() (func() uint64, error) {
	var h *netlink.Handle
	var err error
	t.inNamespace(func() { h, err = netlink.NewHandle() })
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

// setAddress sets the address of a device and brings it up.
func setAddress(device, address string) error {
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

// enableThreadedNAPI makes a kernel thread receive for the near device, and finds that thread. This needs GRO.
func (t *testbed) enableThreadedNAPI() error {
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
			t.napiThread, err = strconv.Atoi(filepath.Base(filepath.Dir(name)))
			return err
		}
	}
	return errors.New("threaded NAPI: no thread found")
}

// setOffload sets an offload of a device, as `ethtool -K` does.
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

// setNice sets the nice value of a process or thread.
func setNice(id, nice int) error { return unix.Setpriority(unix.PRIO_PROCESS, id, nice) }

// setSessionNice sets the nice value of all processes of this terminal. By default the kernel shares the cores among
// terminal sessions, and uses nice values only inside each session.
func setSessionNice(nice int) error {
	return os.WriteFile("/proc/self/autogroup", []byte(strconv.Itoa(nice)), 0)
}

// setRealTime gives a kernel thread priority over all programs, as the interrupt of a network card has.
func setRealTime(pid int) error {
	return unix.SchedSetAttr(pid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
}

// setIdleThread pins the calling thread to a core with idle priority, and returns the thread's number.
func setIdleThread(core int) (int, error) {
	var set unix.CPUSet
	set.Set(core)
	return unix.Gettid(), errors.Join(unix.SchedSetaffinity(0, &set),
		unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0))
}

// interruptThread sends a thread a signal that only ends a system call. Go's scheduler uses that signal for the same.
func interruptThread(thread int) { _ = unix.Tgkill(os.Getpid(), thread, unix.SIGURG) }

// bufferDrops counts the datagrams that did not enter the buffers of a port's sockets so far: the buffer was full, or a
// filter dropped them.
func bufferDrops(port uint16) (n uint64) {
	text, _ := os.ReadFile(process.UDPSockets)
	local := fmt.Sprintf(":%04X", port)
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 12 && strings.HasSuffix(fields[1], local) {
			drops, _ := strconv.ParseUint(fields[12], 10, 64) // the kernel writes numbers
			n += drops
		}
	}
	return n
}
