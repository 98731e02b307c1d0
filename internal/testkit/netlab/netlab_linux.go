package netlab

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Namespace is a network namespace, with its own interfaces and routes. Its loopback is up.
type Namespace struct {
	t      testing.TB
	name   string
	handle netns.NsHandle
}

// New creates a namespace that lasts as long as the test. It skips the test if namespaces are not available.
func New(t testing.TB, name string) *Namespace {
	t.Helper()
	n := &Namespace{t: t, name: name}
	var err error
	onOwnThread(func() { n.handle, err = netns.New() })
	if err != nil {
		t.Skipf("network namespaces are not available: %v", err)
	}
	t.Cleanup(func() { _ = n.handle.Close() })
	n.up("lo")
	return n
}

// Home returns the namespace of the test itself. What the test adds there should end with other namespaces, as cables
// do.
func Home(t testing.TB) *Namespace {
	t.Helper()
	handle, err := netns.Get()
	if err != nil {
		t.Skipf("network namespaces are not available: %v", err)
	}
	t.Cleanup(func() { _ = handle.Close() })
	return &Namespace{t: t, name: "home", handle: handle}
}

// Do runs f in the namespace, on another goroutine. So f must not end the test's goroutine.
func (n *Namespace) Do(f func()) {
	n.t.Helper()
	var err error
	onOwnThread(func() {
		if err = netns.Set(n.handle); err == nil {
			f()
		}
	})
	if err != nil {
		n.t.Fatalf("enter namespace %s: %v", n.name, err)
	}
}

// onOwnThread runs f on a thread that runs nothing else meanwhile, and takes the thread back to its namespace. The
// thread must not end: the kernel would kill the processes that the thread has started to end with their parent.
func onOwnThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		home, err := netns.Get()
		if err != nil {
			panic(err) // the thread has a namespace, always
		}
		defer func() {
			if netns.Set(home) == nil {
				runtime.UnlockOSThread() // otherwise the thread ends with the goroutine
			}
			_ = home.Close()
		}()
		f()
	}()
	<-done
}

// Route adds a route to a network ("10.1.0.0/16" or "default") by a gateway.
func (n *Namespace) Route(network, gateway string) {
	n.t.Helper()
	route := &netlink.Route{Gw: net.ParseIP(gateway)}
	if network != "default" {
		route.Dst = n.network(network)
	}
	n.run("route "+network, func() error { return netlink.RouteAdd(route) })
}

// Own makes all addresses of a network local to the namespace.
func (n *Namespace) Own(network string) {
	n.t.Helper()
	link := n.link("lo")
	n.run("own "+network, func() error {
		return netlink.RouteAdd(&netlink.Route{
			LinkIndex: link.Attrs().Index, Dst: n.network(network), Scope: netlink.SCOPE_HOST,
			Type: typeLocal, Table: tableLocal,
		})
	})
}

// From rtnetlink(7).
const (
	typeLocal  = 2   // RTN_LOCAL
	tableLocal = 255 // RT_TABLE_LOCAL
)

// Unroute removes a network's route.
func (n *Namespace) Unroute(network string) {
	n.t.Helper()
	n.run("unroute "+network, func() error { return netlink.RouteDel(&netlink.Route{Dst: n.network(network)}) })
}

// Up turns an interface on.
func (n *Namespace) Up(device string) {
	n.t.Helper()
	n.up(device)
}

// Down turns an interface off.
func (n *Namespace) Down(device string) {
	n.t.Helper()
	link := n.link(device)
	n.run("set "+device+" down", func() error { return netlink.LinkSetDown(link) })
}

// SetMTU sets an interface's MTU, in bytes.
func (n *Namespace) SetMTU(device string, mtu int) {
	n.t.Helper()
	link := n.link(device)
	n.run("set MTU", func() error { return netlink.LinkSetMTU(link, mtu) })
}

// Address gives an interface an address with its prefix length, such as "10.0.0.1/24".
func (n *Namespace) Address(device, address string) {
	n.t.Helper()
	link := n.link(device)
	parsed, err := netlink.ParseAddr(address)
	if err != nil {
		n.t.Fatal(err)
	}
	parsed.Flags = noDAD
	n.run("address "+address, func() error { return netlink.AddrAdd(link, parsed) })
}

// Unaddress takes an address with its prefix length from an interface.
func (n *Namespace) Unaddress(device, address string) {
	n.t.Helper()
	link := n.link(device)
	parsed, err := netlink.ParseAddr(address)
	if err != nil {
		n.t.Fatal(err)
	}
	n.run("remove address "+address, func() error { return netlink.AddrDel(link, parsed) })
}

// Ports bounds the ports that the kernel gives to sockets of the namespace.
func (n *Namespace) Ports(first, last int) {
	n.t.Helper()
	n.run("range of ports", func() error {
		return os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", fmt.Appendf(nil, "%d %d", first, last), 0)
	})
}

// Hardware returns the Ethernet address of an interface.
func (n *Namespace) Hardware(device string) net.HardwareAddr {
	n.t.Helper()
	return n.link(device).Attrs().HardwareAddr
}

// Neighbor leads datagrams for an address of the interface's network to an Ethernet address, as after a gratuitous ARP
// message.
func (n *Namespace) Neighbor(device, address string, hardware net.HardwareAddr) {
	n.t.Helper()
	link := n.link(device)
	n.run("neighbor "+address, func() error {
		return netlink.NeighSet(&netlink.Neigh{
			LinkIndex: link.Attrs().Index, IP: net.ParseIP(address), HardwareAddr: hardware, State: netlink.NUD_PERMANENT,
		})
	})
}

// noDAD is IFA_F_NODAD: an IPv6 address that works at once, without duplicate address detection.
const noDAD = 0x02

func (n *Namespace) network(cidr string) *net.IPNet {
	_, network, err := net.ParseCIDR(cidr)
	if err != nil {
		n.t.Fatal(err)
	}
	return network
}

func (n *Namespace) up(device string) {
	link := n.link(device)
	n.run("set "+device+" up", func() error { return netlink.LinkSetUp(link) })
}

func (n *Namespace) link(device string) (link netlink.Link) {
	n.t.Helper()
	n.run("find "+device, func() (err error) { link, err = netlink.LinkByName(device); return err })
	return link
}

func (n *Namespace) run(what string, f func() error) {
	n.t.Helper()
	var err error
	n.Do(func() { err = f() })
	if err != nil {
		n.t.Fatalf("namespace %s: %s: %v", n.name, what, err)
	}
}

// Switch adds an Ethernet switch as long as the test lasts, with a port of its own. Plug joins other interfaces to it.
func (n *Namespace) Switch(device string) {
	n.t.Helper()
	attributes := netlink.NewLinkAttrs()
	attributes.Name = device
	bridge := &netlink.Bridge{LinkAttrs: attributes}
	n.run("add a switch", func() error { return netlink.LinkAdd(bridge) })
	n.t.Cleanup(func() { n.run("remove a switch", func() error { return netlink.LinkDel(bridge) }) })
	n.up(device)
}

// Plug joins an interface to a switch.
func (n *Namespace) Plug(device, into string) {
	n.t.Helper()
	link, bridge := n.link(device), n.link(into)
	n.run("plug in "+device, func() error { return netlink.LinkSetMaster(link, bridge) })
}

// Cable joins two namespaces by a pair of Ethernet interfaces with these names, and turns them on.
func Cable(a *Namespace, deviceA string, b *Namespace, deviceB string) {
	a.t.Helper()
	attributes := netlink.NewLinkAttrs()
	attributes.Name = deviceA
	pair := &netlink.Veth{LinkAttrs: attributes, PeerName: deviceB, PeerNamespace: netlink.NsFd(b.handle)}
	a.run("join by a cable", func() error { return netlink.LinkAdd(pair) })
	// The kernel removes the interfaces of a namespace some time after its end.
	a.t.Cleanup(func() { a.Do(func() { _ = netlink.LinkDel(pair) }) })
	a.up(deviceA)
	b.up(deviceB)
}
